import { useEffect, useRef } from "preact/hooks";
import type { Unit } from "../data/site.ts";
import { ALL_STATISTICS } from "../data/statistics.ts";

const KEYS: [string, string][] = [
  ["/", "search by label, index or text"],
  ["j  k", "next and previous latent"],
  ["← → ↑ ↓", "turn the picture"],
  ["+  −  0", "zoom in, out, back to the start"],
  ["x  y  z", "look along an axis"],
  ["s", "level-set surface"],
  ["r", "random control: the same points on random directions"],
  ["l", "linear control: the same points along the best linear direction (map: lasso)"],
  ["a", "axes"],
  ["c", "next colouring"],
  ["u", "map: statistics or UMAP"],
  ["d", "map: hide dense latents"],
  ["Esc", "remove pins, comparison or selection"],
  ["?", "this page"],
];

export function Help({ unit, onClose }: { unit: Unit; onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog
      ref={dialog}
      class="help"
      aria-labelledby="help-title"
      onClose={onClose}
      onClick={(event) => event.target === dialog.current && onClose()}
    >
      <header>
        <h2 id="help-title">How to read this</h2>
        <button type="button" onClick={onClose}>
          Close
        </button>
      </header>
      <p>
        Every latent is a quadric: a quadratic form of {unit === "row" ? "a row" : "a token's activation"} x of unit
        length, read about the mean {unit} as z = Σ λ<sub>j</sub> (v·e<sub>j</sub>)² + slope·v + constant, with v the
        difference from the mean. The picture shows {unit}s by their coordinates v·e<sub>j</sub>; the diamond ◇ is the
        mean {unit}, a cross × the centre of the quadric. A solid axis has λ &gt; 0: far along it, in either direction, z
        rises. A dashed axis has λ &lt; 0. A dotted axis is the linear direction: z rises towards one end. Points on one
        surface z = τ activate the latent equally. Colours and sizes show z − rest, where rest is the median of z.
      </p>
      <div class="help-columns">
        <section>
          <h3>Keys</h3>
          <dl class="keys">
            {KEYS.map(([key, does]) => (
              <div key={key}>
                <dt>
                  <kbd>{key}</kbd>
                </dt>
                <dd>{does}</dd>
              </div>
            ))}
          </dl>
        </section>
        <section>
          <h3>Statistics</h3>
          <dl>
            {ALL_STATISTICS.map(({ key, name, explain }) => (
              <div key={key}>
                <dt>{name}</dt>
                <dd>{explain(unit)}</dd>
              </div>
            ))}
          </dl>
        </section>
      </div>
    </dialog>
  );
}
