// How the latent fires on all data: quantiles, balance of signs, over-represented tokens.
import type { Index, Latent, Lift, SiteText } from "../data/site.ts";
import type { DictionaryEntry } from "../data/schema.ts";
import { signed } from "../ui/format.ts";

interface Props {
  latent: Latent;
  entry: DictionaryEntry;
  index: Index;
  text: SiteText;
}

export function Firing({ latent, entry, index, text }: Props) {
  const positive = index.columns.positive_share?.[latent.latent] ?? 0;
  // Where every row has its own text, none can be over-represented.
  const repeats = text.vocabulary.size < text.entry.n_tokens;
  const firing = index.columns.firing_share?.[latent.latent] ?? 0;
  return (
    <div class="firing">
      <Quantiles latent={latent} probabilities={entry.sampling.quantile_probabilities} />
      {!latent.isLinear && <div class="balance" title={`share of ${entry.sampling.positive_share} from z > rest`}>
        <svg viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">
          <rect class="negative" x="0" y="0" width={100 - 100 * positive} height="6" />
          <rect class="positive" x={100 - 100 * positive} y="0" width={100 * positive} height="6" />
        </svg>
        <p class="ends quiet">
          <span>{(100 - 100 * positive).toFixed(0)} % negative</span>
          <span>{(100 * positive).toFixed(0)} % positive</span>
        </p>
      </div>}
      <p class="quiet">
        {latent.isLinear ? "z is 0 at rest, and never negative. " : `Of ${entry.sampling.positive_share}. `}Fires ({entry.sampling.firing_threshold}) on {(100 * firing).toPrecision(2)}{" "}
        % of {text.unit}s.
      </p>
      {repeats && <Lifts lifts={latent.lifts[0]} text={text} positive />}
      {repeats && <Lifts lifts={latent.lifts[1]} text={text} positive={false} />}
    </div>
  );
}

/** Nested bars between quantiles of z − rest, on a root scale so that both the bulk and the tail are visible. */
function Quantiles({ latent, probabilities }: { latent: Latent; probabilities: number[] }) {
  const quantiles = latent.quantiles.map((value) => value - latent.rest);
  const reach = Math.max(...quantiles.map(Math.abs), 1e-12);
  const x = (value: number) => 100 + 92 * Math.sign(value) * Math.sqrt(Math.abs(value) / reach);
  const count = quantiles.length;
  const pairs = Array.from({ length: Math.floor(count / 2) }, (_, i) => [i, count - 1 - i]);
  const spoken = probabilities.map((p, i) => `${+(100 * p).toFixed(2)} %: ${signed(quantiles[i])}`).join(", ");
  return (
    <figure class="quantiles">
      <svg viewBox="0 0 200 34" role="img" aria-label={`Quantiles of z − rest: ${spoken}`}>
        <line x1="100" x2="100" y1="2" y2="24" class="base" />
        {pairs.map(([low, high], i) => (
          <rect
            key={i}
            class="spread"
            x={x(quantiles[low])}
            width={Math.max(0.5, x(quantiles[high]) - x(quantiles[low]))}
            y={11 - (1.2 + 2 * i)}
            height={2 * (1.2 + 2 * i)}
            rx="1"
          >
            <title>{`${+(100 * probabilities[low]).toFixed(2)} % to ${+(100 * probabilities[high]).toFixed(2)} %`}</title>
          </rect>
        ))}
        <text x="100" y="32">
          rest
        </text>
        {[quantiles[0], quantiles[count - 1]].map(
          (end) =>
            Math.abs(x(end) - 100) > 18 && (
              <text key={end} x={x(end)} y="32">
                {signed(end)}
              </text>
            ),
        )}
      </svg>
    </figure>
  );
}

function Lifts({ lifts, text, positive }: { lifts: Lift[]; text: SiteText; positive: boolean }) {
  if (!lifts.length) return null;
  return (
    <ul
      class={`lifts ${positive ? "positive" : "negative"}`}
      aria-label={`Over-represented where z ${positive ? ">" : "<"} rest`}
    >
      {lifts.map(({ token, lift }) => (
        <li key={token} title={`${lift.toPrecision(3)} times as common here as in ${text.unit === "row" ? "all rows" : "the text"}`}>
          <bdi>{text.vocabulary.text(token)}</bdi>
          <small>×{lift < 10 ? lift.toFixed(1) : lift.toFixed(0)}</small>
        </li>
      ))}
    </ul>
  );
}
