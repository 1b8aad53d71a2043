// The paper's example geometries: how many latents show each, and the clearest ones.
import type { DictionaryEntry, LatentPattern, PatternKind } from "../data/schema.ts";
import type { Site } from "../data/site.ts";
import { useLoaded } from "../ui/hooks.ts";
import { labelOf } from "../ui/labels.tsx";
import { PatternControls, PatternMethod } from "../ui/pattern-controls.tsx";
import { brief, evidence, frequency, tokensOf } from "../ui/pattern-words.ts";
import { formatRoute, LATENT } from "../ui/route.ts";
import { Problem } from "../ui/states.tsx";
import type { HoverProps } from "./worth.tsx";

export function ExampleGeometries(props: HoverProps & { site: Site }) {
  const { site, entry } = props;
  const { value, error } = useLoaded(`patterns ${entry.name}`, () => site.patterns(entry));
  if (!entry.patterns) return null;
  return (
    <section class="panel geometries" aria-label="Example geometries">
      <h2>Example geometries</h2>
      {error ? (
        <Problem error={error} />
      ) : (
        <div class="geometry-kinds">
          {entry.patterns.kinds.map((kind) => (
            <Kind key={kind.name} {...props} kind={kind} tests={value} />
          ))}
        </div>
      )}
      <PatternMethod entry={entry} />
    </section>
  );
}

interface KindProps extends HoverProps {
  entry: DictionaryEntry;
  kind: PatternKind;
  /** By latent; null while they are loaded. */
  tests: Record<string, LatentPattern[]> | null;
}

function Kind({ kind, tests, ...props }: KindProps) {
  const examples = kind.best.flatMap((latent) => {
    const test = tests?.[latent]?.find(({ name }) => name === kind.name);
    return test ? [{ latent, test }] : [];
  });
  return (
    <div>
      <h3>
        <span class="pattern-name">{kind.name}</span> <span class="quiet">{frequency(kind)}</span>
      </h3>
      <p class="quiet">{kind.meaning}</p>
      {examples.length > 0 && (
        <ol>
          {examples.map((each) => (
            <Example key={each.latent} {...props} {...each} />
          ))}
        </ol>
      )}
      <PatternControls kind={kind} />
    </div>
  );
}

function Example({ entry, index, hovered, onHover, latent, test }: HoverProps & { latent: number; test: LatentPattern }) {
  const [tokens, label] = [tokensOf(test), labelOf(index, latent)];
  return (
    <li
      class={hovered === latent ? "hovered" : ""}
      onPointerEnter={() => onHover(latent)}
      onPointerLeave={() => onHover(null)}
    >
      <a href={formatRoute({ ...LATENT, dictionary: entry.name, latent })} title={`${label}: ${evidence(test)}`}>
        <span class="number">{latent}</span>
        <span class="label">
          <bdi>{tokens}</bdi> {!tokens.includes(label) && <bdi class="quiet">{label}</bdi>}
        </span>
        <span class="value">{brief(test)}</span>
      </a>
    </li>
  );
}
