// Text around a token.
import type { Latent, Site, SiteText } from "../data/site.ts";
import { lastAtMost } from "../data/site.ts";
import { useLoaded } from "../ui/hooks.ts";
import { NOTHING } from "../data/schema.ts";
import { aboveRest } from "../scene/activation.ts";
import { fromRest, signed } from "../ui/format.ts";

interface LineProps {
  text: SiteText;
  tokens: number[];
  /** Index of the token that is marked. */
  centre: number;
  /** Place in the text of the first token. */
  from: number;
  positive: boolean;
}

/** Consecutive tokens as one line, with the middle one marked and a pilcrow where a document begins. */
export function ContextLine({ text, tokens, centre, from, positive }: LineProps) {
  const first = tokens.findIndex((token) => token !== NOTHING);
  const words = text.vocabulary.texts(tokens.filter((token) => token !== NOTHING));
  const word = (i: number) => {
    const place = from + first + i;
    const begins = i > 0 && text.documentStarts[lastAtMost(text.documentStarts, place)] === place;
    return (
      <bdi key={i}>
        {begins && (
          <i class="document-start" title="another document begins">
            ¶
          </i>
        )}
        {words[i]}
      </bdi>
    );
  };
  const middle = centre - first;
  const indent = words[middle]?.match(/^ */)![0] ?? ""; // most tokens begin with a space, which is not marked
  words[middle] = words[middle]?.slice(indent.length);
  const all = words.map((_, i) => word(i));
  return (
    <span class={`context-line ${text.unit === "row" ? "alone" : ""}`}>
      <span class="before">
        {all.slice(0, middle)}
        <bdi>{indent}</bdi>
      </span>
      <mark class={positive ? "positive" : "negative"}>{all[middle]}</mark>
      <span class="after">{all.slice(middle + 1)}</span>
    </span>
  );
}

interface ContextsProps {
  latent: Latent;
  text: SiteText;
  hovered: number | null;
  pins: number[];
  onHover: (point: number | null) => void;
  /** Left out where lines cannot be pinned. */
  onPin?: (point: number) => void;
}

/** The strongest contexts of each sign. */
export function Contexts({ latent, text, hovered, pins, onHover, onPin }: ContextsProps) {
  return (
    <div class="contexts">
      <p class="quiet">
        {latent.isLinear
          ? "Values are z, which is 0 where the latent does not fire, and never negative."
          : `Values are z − rest; rest = ${signed(latent.rest, 3)}, the median of z over all ${text.unit}s.`}
      </p>
      {latent.contexts.slice(0, latent.isLinear ? 1 : 2).map((list, sign) => (
        <div key={sign}>
          <h3 class={sign ? "negative" : "positive"}>{sign ? "Negative, z < rest" : latent.isLinear ? "Positive, z > 0" : "Positive, z > rest"}</h3>
          {list.length === 0 && <p class="quiet">No {text.unit} of note takes z {sign ? "below" : "above"} rest.</p>}
          <ol>
            {list.map(({ point, tokens }) => (
              <li key={point}>
                <button
                  type="button"
                  class={`context ${hovered === point ? "hovered" : ""}`}
                  aria-pressed={onPin && pins.includes(point)}
                  disabled={!onPin}
                  onClick={() => onPin?.(point)}
                  onPointerEnter={() => onHover(point)}
                  onPointerLeave={() => onHover(null)}
                  onFocus={() => onHover(point)}
                  onBlur={() => onHover(null)}
                >
                  <span class="value">{signed(aboveRest(latent, point))}</span>
                  <ContextLine
                    text={text}
                    tokens={tokens}
                    centre={(tokens.length - 1) / 2}
                    from={latent.places[point] - (tokens.length - 1) / 2}
                    positive={aboveRest(latent, point) >= 0}
                  />
                </button>
              </li>
            ))}
          </ol>
        </div>
      ))}
    </div>
  );
}

interface AroundProps {
  site: Site;
  text: SiteText;
  latent: Latent;
  point: number;
  reach: number;
}

/** Text around any point, or the number of a row, which has no text around it. */
export function Around(props: AroundProps) {
  return props.text.unit === "row" ? <RowNumber {...props} /> : <FetchedText {...props} />;
}

/** Index of a row in the data, unless that is its text already. */
function RowNumber({ text, latent, point }: AroundProps) {
  const name = `row ${latent.places[point]}`;
  return text.vocabulary.text(latent.tokens[point]).trim() === name ? null : <span class="quiet">{name}</span>;
}

function FetchedText({ site, text, latent, point, reach }: AroundProps) {
  const place = latent.places[point];
  const { value, error } = useLoaded(`${text.entry.name} ${place} ${reach}`, () => site.around(text, place, reach));
  if (error) return <span class="quiet">the text around it cannot be read: {(error as Error).message}</span>;
  if (!value) return <span class="quiet">…</span>;
  const { from, tokens } = value;
  return (
    <ContextLine text={text} tokens={tokens} centre={place - from} from={from} positive={aboveRest(latent, point) >= 0} />
  );
}

interface PinsProps {
  site: Site;
  text: SiteText;
  latent: Latent;
  pins: number[];
  onPin: (point: number) => void;
  onHover: (point: number | null) => void;
}

/** Pinned points with up to 64 tokens on each side. */
export function Pins({ site, text, latent, pins, onPin, onHover }: PinsProps) {
  if (!pins.length) return null;
  return (
    <section class="panel pins" aria-label="Pinned points">
      <h2>Pinned</h2>
      <ol>
        {pins.map((point) => (
          <li key={point} onPointerEnter={() => onHover(point)} onPointerLeave={() => onHover(null)}>
            <header>
              <b>
                <bdi>{text.vocabulary.text(latent.tokens[point])}</bdi>
              </b>
              <span class="value">z = {fromRest(aboveRest(latent, point))}</span>
              <button type="button" class="plain" aria-label={`Unpin point ${point}`} onClick={() => onPin(point)}>
                Unpin
              </button>
            </header>
            <p>
              <Around site={site} text={text} latent={latent} point={point} reach={64} />
            </p>
          </li>
        ))}
      </ol>
    </section>
  );
}
