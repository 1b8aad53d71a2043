// The reader's own text on a latent's page: stars in the picture, and steering.
import { useState } from "preact/hooks";
import type { Steered } from "../data/live.ts";
import type { Latent } from "../data/site.ts";
import type { DictionaryEntry } from "../data/schema.ts";
import { largestStep } from "../scene/activation.ts";
import { isDrawable } from "../scene/geometry.ts";
import { fromRest, signed } from "../ui/format.ts";
import { visible } from "../data/vocabulary.ts";
import type { Stars } from "../data/live.ts";
import { useAnswer } from "./ask.ts";
import type { Asked } from "./ask.ts";
import { AnswerStatus } from "./status.tsx";
import { wordOf } from "./words.ts";

interface TextProps {
  latent: Latent;
  text: string;
  asked: Asked<Stars>;
  onText: (text: string) => void;
}

/** Where the reader types; the stars in the picture follow. */
export function TextPanel({ latent, text, asked, onText }: TextProps) {
  const stars = text.trim() ? asked.answer : null;
  return (
    <section class="panel own-text" aria-label="Your text">
      <h2>
        <label for="own-text">Your text</label>
      </h2>
      <textarea
        id="own-text"
        rows={2}
        maxLength={8000}
        spellcheck={false}
        placeholder="Type here: its tokens become stars in the picture"
        value={text}
        onInput={(event) => onText(event.currentTarget.value)}
      />
      <AnswerStatus asked={asked} idle={stars ? `${stars.tokens.length} tokens are stars in the picture` : ""} />
      {stars && (
        <ol class="own-tokens" aria-label="Tokens of your text">
          {stars.tokens.slice(0, 200).map((token, row) => (
            <li key={token} class={stars.values[row] >= latent.rest ? "positive" : "negative"}>
              <bdi>{wordOf(stars.words[token]).trim() || "␣"}</bdi> <span class="value">{signed(stars.values[row] - latent.rest)}</span>
            </li>
          ))}
        </ol>
      )}
    </section>
  );
}

type Kind = "project" | "slide" | "ablate";
const KINDS: [Kind, string][] = [
  ["project", "Set z"],
  ["slide", "Slide along z = const"],
  ["ablate", "Remove"],
];
/** A direction has no level set to slide along; its activation is clamped, and what is missing is added along it. */
const KINDS_OF_DIRECTIONS: [Kind, string][] = [
  ["project", "Clamp z"],
  ["ablate", "Remove"],
];

/** Continue the text with the latent moved, beside the model as it is. */
export function SteerPanel({ entry, latent, text }: { entry: DictionaryEntry; latent: Latent; text: string }) {
  const reach = largestStep(latent) || 1;
  const [kind, setKind] = useState<Kind>("project");
  const [step, setStep] = useState(reach);
  const [angle, setAngle] = useState(0.5);
  const [where, setWhere] = useState<"all" | "last">("all");
  // Only when asked for: the model is slow, and a reader may have come for the stars.
  const [active, setActive] = useState(false);
  const amount = kind === "slide" ? angle : Number((latent.rest + step).toPrecision(4));
  const question = active && text.trim()
    ? { dictionary: entry.name, text, latent: latent.latent, kind, amount, where, tokens: 20 }
    : null;
  const asked = useAnswer("steer", question, 500);
  const slides = isDrawable(latent, 0) && isDrawable(latent, 1);
  return (
    <section class="panel steer" aria-label="Steer">
      <h2>Steer</h2>
      <div class="toolbar">
        <div class="segments" role="group" aria-label="What to do with the latent">
          {(latent.isLinear ? KINDS_OF_DIRECTIONS : KINDS).map(([each, name]) => (
            <button
              key={each}
              type="button"
              aria-pressed={kind === each}
              disabled={each === "slide" && !slides}
              onClick={() => setKind(each)}
            >
              {name}
            </button>
          ))}
        </div>
        {kind === "project" && (
          <Slider name="z" low={latent.isLinear ? 0 : -2 * reach} high={2 * reach} value={step} shown={`z = ${fromRest(step)}`} onValue={setStep} />
        )}
        {kind === "slide" && (
          <Slider name="How far" low={-3.14} high={3.14} value={angle} shown={`by ${signed(angle)}`} onValue={setAngle} />
        )}
        <label>
          at
          <select value={where} onChange={(event) => setWhere(event.currentTarget.value as "all" | "last")}>
            <option value="all">all tokens</option>
            <option value="last">the last token and after</option>
          </select>
        </label>
      </div>
      {!active && (
        <p>
          <button type="button" disabled={!text.trim()} onClick={() => setActive(true)}>
            Continue the text, with and without
          </button>
        </p>
      )}
      <AnswerStatus asked={asked} idle={text.trim() ? moved(asked.answer) : "Type a text first; the model continues it."} />
      {question && asked.answer && <Sides text={text} found={asked.answer} />}
    </section>
  );
}

function moved(found: Steered | null): string {
  return found ? `The next token's distribution moved by ${found.divergence.toPrecision(2)} bits (KL).` : "";
}

interface SliderProps {
  name: string;
  low: number;
  high: number;
  value: number;
  shown: string;
  onValue: (value: number) => void;
}

function Slider({ name, low, high, value, shown, onValue }: SliderProps) {
  return (
    <label class="slider">
      {name}
      <input
        type="range"
        min={low}
        max={high}
        step={(high - low) / 80}
        value={value}
        onInput={(event) => onValue(Number(event.currentTarget.value))}
      />
      <output>{shown}</output>
    </label>
  );
}

function Sides({ text, found }: { text: string; found: Steered }) {
  const most = Math.max(...found.next.map(({ plain, steered }) => Math.max(plain, steered)), 1e-9);
  return (
    <div class="sides">
      {(["plain", "steered"] as const).map((side) => (
        <section key={side} aria-label={side === "plain" ? "As it is" : "With the latent moved"}>
          <h3>{side === "plain" ? "As it is" : "With the latent moved"}</h3>
          <p class="continuation">
            <bdi class="quiet">{visible(text)}</bdi>
            <bdi>{visible(found[side])}</bdi>
          </p>
          <table class="bars">
            <caption class="hidden">Most likely next tokens</caption>
            <tbody>
              {found.next.map(({ text: word, [side]: share }, i) => (
                <tr key={i}>
                  <th scope="row">
                    <bdi>{wordOf(word).trim() || "␣"}</bdi>
                  </th>
                  <td>
                    <svg class={`bar ${side}`} viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
                      <rect width={(100 * share) / most} height="8" />
                    </svg>
                  </td>
                  <td class="value">{share < 0.001 ? "< 0.1 %" : `${(100 * share).toFixed(1)} %`}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      ))}
    </div>
  );
}
