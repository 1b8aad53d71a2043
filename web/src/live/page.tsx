// Try it: a text, its tokens coloured by latents, and the latents of the token that is chosen.
import { useEffect } from "preact/hooks";
import { isLive } from "../data/live.ts";
import type { Explanation, ExplainedToken, TokenLatent } from "../data/live.ts";
import type { DictionaryEntry } from "../data/schema.ts";
import { css, mix, PALETTES } from "../scene/colours.ts";
import type { Theme } from "../scene/colours.ts";
import { percent, shortened } from "../ui/format.ts";
import { formatRoute, LATENT } from "../ui/route.ts";
import type { TryRoute } from "../ui/route.ts";
import { visible } from "../data/vocabulary.ts";
import { useAnswer } from "./ask.ts";
import { AnswerStatus } from "./status.tsx";
import { COLOURED, depthOf, endsLine, firingsOf, quantileText, rankOf, wordOf } from "./words.ts";

interface Props {
  entry: DictionaryEntry;
  route: TryRoute;
  theme: Theme;
  go: (route: TryRoute, remember: boolean) => void;
}

const EXAMPLES = ["Paris is the capital of France", "The meeting was moved to Tuesday", "She gave her book to them in 1984."];

export function TryPage(props: Props) {
  useEffect(() => {
    document.title = `Try it · ${props.entry.name} · Quadric`;
  }, [props.entry.name]);
  return <main class="try-page">{isLive() ? <Live {...props} /> : <NotLive />}</main>;
}

function NotLive() {
  return (
    <section class="panel">
      <h1>Try it</h1>
      <p>
        This page needs the language model, and this site is static. Serve the run itself with{" "}
        <code>quadric view RUN --live</code>.
      </p>
    </section>
  );
}

function Live({ entry, route, theme, go }: Props) {
  const question = route.text.trim() ? { dictionary: entry.name, text: route.text, top: 8 } : null;
  const asked = useAnswer("explain", question);
  const change = (part: Partial<TryRoute>) => go({ ...route, ...part }, false);
  const found = question && asked.answer;
  const token = found && route.token !== null ? found.tokens[route.token] : undefined;
  return (
    <>
      <section class="panel try-text">
        <h1>Try it</h1>
        <label for="try-text" class="quiet">
          A text, read as the dictionary's own: every token gets the latents that explain it.
        </label>
        <textarea
          id="try-text"
          rows={3}
          maxLength={8000}
          spellcheck={false}
          value={route.text}
          onInput={(event) => change({ text: event.currentTarget.value, token: null })}
        />
        {!route.text && (
          <p class="examples">
            {EXAMPLES.map((text) => (
              <button key={text} type="button" class="plain" onClick={() => change({ text })}>
                {text}
              </button>
            ))}
          </p>
        )}
        <AnswerStatus asked={asked} idle={found ? `${found.tokens.length} tokens` : "Type a text."} />
      </section>
      {found && (
        <div class="try-found">
          <div class="try-left">
            <Tokens {...{ found, route, theme, change }} />
            {token && <TokenPanel {...{ token, route, entry }} />}
          </div>
          <Latents {...{ found, route, theme, change, entry }} />
          <p class="quiet ranking">
            Strength: {found.ranking}. Labels are unevaluated. {found.notes.join(". ")}
          </p>
        </div>
      )}
    </>
  );
}

interface PartProps {
  found: Explanation;
  route: TryRoute;
  theme: Theme;
  change: (part: Partial<TryRoute>) => void;
}

function Tokens({ found, route, theme, change }: PartProps) {
  const firings = route.colour === null ? null : firingsOf(found, route.colour);
  return (
    <section class="panel" aria-label="Tokens">
      <div class="toolbar">
        <h2>Tokens</h2>
        <label>
          Colour
          <select
            value={route.colour ?? ""}
            onChange={({ currentTarget: { value } }) => change({ colour: value === "" ? null : Number(value) })}
          >
            <option value="">strongest latent of each</option>
            {found.latents.map(({ latent, label }) => (
              <option key={latent} value={latent}>
                {latent}: {shortened(visible(label), 40)}
              </option>
            ))}
          </select>
        </label>
      </div>
      <p class="tokens">
        {found.tokens.map((token, place) => {
          const firing = firings?.get(place);
          const best = token.latents[0];
          const depth = depthOf(firings ? (firing?.strength ?? 0) : (best?.strength ?? 0));
          const below = firing !== undefined && firing.quantile !== null && firing.quantile < 0.5;
          const colour = firings ? PALETTES[theme][below ? "negative" : "positive"] : hue(theme, rankOf(found, token));
          return (
            <>
              <button
                key={place}
                type="button"
                class="token"
                disabled={token.dropped !== null}
                aria-pressed={route.token === place}
                title={titleOf(token)}
                style={{ borderBottomColor: css(mix(PALETTES[theme].quiet, colour, depth)), borderBottomWidth: `${2 + 4 * depth}px` }}
                onClick={() => change({ token: route.token === place ? null : place })}
              >
                <bdi>{wordOf(token.text)}</bdi>
              </button>
              {endsLine(token.text) && <br />}
            </>
          );
        })}
      </p>
      <p class="quiet">Choose a token to see its latents.</p>
    </section>
  );
}

function titleOf(token: ExplainedToken): string {
  if (token.dropped) return `${token.dropped}: not explained, since training leaves it out`;
  const best = token.latents[0];
  return best ? `${best.latent}: ${visible(best.label)} (${quantileText(best.quantile)})` : "";
}

function hue(theme: Theme, rank: number) {
  return rank < 0 ? PALETTES[theme].quiet : PALETTES[theme].categories[rank];
}

function Latents({ found, route, theme, change, entry }: PartProps & { entry: DictionaryEntry }) {
  return (
    <section class="panel" aria-label="Latents of the text">
      <h2>Where latents fire</h2>
      <ul class="text-latents">
        {found.latents.slice(0, 12).map(({ latent, label, firings }, rank) => (
          <li key={latent}>
            <button
              type="button"
              class="plain"
              aria-pressed={route.colour === latent}
              aria-label={`Colour by latent ${latent}`}
              onClick={() => change({ colour: route.colour === latent ? null : latent })}
            >
              <svg viewBox="0 0 10 10" width="11" height="11" aria-hidden="true">
                <circle cx="5" cy="5" r="4.5" fill={css(hue(theme, rank < COLOURED ? rank : -1))} />
              </svg>
            </button>
            <a href={latentAddress(entry, latent, route.text)}>
              <span class="number">{latent}</span> <bdi>{shortened(visible(label), 60)}</bdi>
            </a>
            <span class="quiet fires">
              {firings.slice(0, 6).map(({ token }) => (
                <bdi key={token}>{wordOf(found.tokens[token].text).trim() || "␣"}</bdi>
              ))}
              {firings.length > 6 && `+ ${firings.length - 6}`}
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

interface TokenPanelProps {
  token: ExplainedToken;
  route: TryRoute;
  entry: DictionaryEntry;
}

function TokenPanel({ token, route, entry }: TokenPanelProps) {
  return (
    <section class="panel" aria-label="Latents of the token">
      <h2>
        Latents of <bdi>“{wordOf(token.text).trim() || "␣"}”</bdi>
      </h2>
      <div class="scrolls" tabIndex={0} role="region" aria-label="Latents of the token, as a table">
        <table class="token-latents">
          <thead>
            <tr>
              <th scope="col">Latent</th>
              <th scope="col">Label</th>
              <th scope="col" title="Share of the evidence's tokens on which the latent has a smaller value">
                Quantile
              </th>
              <th scope="col" title="Share of the token's rebuilt energy">
                Energy
              </th>
            </tr>
          </thead>
          <tbody>
            {token.latents.map((each) => (
              <LatentRow key={each.latent} each={each} address={latentAddress(entry, each.latent, route.text)} />
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function LatentRow({ each, address }: { each: TokenLatent; address: string }) {
  return (
    <tr>
      <td>
        <a href={address}>{each.latent}</a>
      </td>
      <td>
        <bdi>{shortened(visible(each.label), 80)}</bdi>
      </td>
      <td class="value">{quantileText(each.quantile)}</td>
      <td class="value">{percent(each.share)}</td>
    </tr>
  );
}

/** The page of a latent with the text's tokens as stars. */
function latentAddress(entry: DictionaryEntry, latent: number, text: string): string {
  return formatRoute({ ...LATENT, dictionary: entry.name, latent, text });
}
