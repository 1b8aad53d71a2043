// How often a pattern is found where there is nothing to find: beside every example.
import type { DictionaryEntry, PatternKind } from "../data/schema.ts";
import { sentence } from "./format.ts";
import { count, doubts, verdict } from "./pattern-words.ts";

/** Whether the pattern is more frequent than in its controls, and the counts. */
export function PatternControls({ kind }: { kind: PatternKind }) {
  return (
    <div class="pattern-controls">
      <p class={doubts(kind).length ? "doubt" : "quiet"}>{verdict(kind)}</p>
      <table class="quiet">
        <tbody>
          {kind.controls.map((each) => (
            <tr key={each.name}>
              <td class="value">{count(each)}</td>
              <th scope="row">
                {each.name}
                {!each.is_own && <abbr title="Measured on the dictionary of quadric demo, not on this one">*</abbr>}
              </th>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** What was tested, against what. */
export function PatternMethod({ entry: { patterns } }: { entry: DictionaryEntry }) {
  return (
    <details>
      <summary>How patterns are tested</summary>
      <p class="quiet">{sentence(patterns!.method)}.</p>
      <ul class="quiet">
        {patterns!.kinds.map(({ name, meaning, statistic, chance }) => (
          <li key={name}>
            {sentence(name)}: {meaning}. Statistic: {statistic}. Chance: {chance}.
          </li>
        ))}
      </ul>
      <p class="quiet">
        Below each pattern: how often the same test passes where nothing was learned, or where there is nothing to find;
        * measured once on the dictionary of quadric demo, over all its latents and not those most worth a look.
      </p>
    </details>
  );
}
