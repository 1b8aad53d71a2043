// The paper's example geometries in one latent: which it shows, how clearly, and what that is worth.
import type { DictionaryEntry, LatentPattern, PatternKind } from "../data/schema.ts";
import { sentence, shortened } from "../ui/format.ts";
import { PatternControls, PatternMethod } from "../ui/pattern-controls.tsx";
import { controlsInWords, doubts, evidence, frequency, notFound, tokensOf, verdict } from "../ui/pattern-words.ts";

interface Props {
  entry: DictionaryEntry;
  /** The tests of this latent; null where it was not tested. */
  patterns: LatentPattern[] | null;
}

export function Patterns({ entry, patterns }: Props) {
  if (!entry.patterns) return null;
  const shown = shownIn(entry, patterns);
  return (
    <section class="panel patterns" aria-label="Example geometries">
      <h2>Example geometries</h2>
      {shown.length > 0 && (
        <ul class="geometry-kinds">
          {shown.map(([test, kind]) => (
            <li key={test.name}>
              <h3>
                <span class="pattern-name">{test.name}</span> <bdi>{shortened(tokensOf(test), 120)}</bdi>
              </h3>
              <p title={kind.statistic}>{sentence(evidence(test))}</p>
              <p class="quiet">
                {sentence(kind.meaning)}: {frequency(kind)} latents.
              </p>
              <PatternControls kind={kind} />
            </li>
          ))}
        </ul>
      )}
      <p class="quiet">
        {patterns ? notFound(patterns) : `Not tested: only ${entry.patterns.method.split(",")[0]}.`}
      </p>
      <PatternMethod entry={entry} />
    </section>
  );
}

/** One chip per pattern that the latent shows; dashed where a control shows it as often. */
export function PatternChips({ entry, patterns }: Props) {
  return (
    <>
      {shownIn(entry, patterns).map(([test, kind]) => (
        <span
          key={test.name}
          class={`chip ${doubts(kind).length ? "doubtful" : "pattern"}`}
          title={`${sentence(kind.meaning)}: ${evidence(test)}. ${verdict(kind)} Controls: ${controlsInWords(kind)}.`}
        >
          {test.name}
        </span>
      ))}
    </>
  );
}

function shownIn(entry: DictionaryEntry, patterns: LatentPattern[] | null): [LatentPattern, PatternKind][] {
  const kinds = new Map(entry.patterns?.kinds.map((kind) => [kind.name, kind]));
  return (patterns ?? []).flatMap((test): [LatentPattern, PatternKind][] => {
    const kind = kinds.get(test.name);
    return test.shown && kind ? [[test, kind]] : [];
  });
}
