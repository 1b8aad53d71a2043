// The points as a table, for readers who cannot see the picture.
import { useState } from "preact/hooks";
import type { Latent, SiteText } from "../data/site.ts";
import type { ShownAxis } from "../scene/geometry.ts";
import { aboveRest } from "../scene/activation.ts";
import { columnName, signed } from "../ui/format.ts";

const PAGE = 50;

interface Props {
  latent: Latent;
  text: SiteText;
  shown: ShownAxis[];
  /** What coordinates are measured from. */
  origin: string;
}

export function PointTable({ latent, text, shown, origin }: Props) {
  const [open, setOpen] = useState(false);
  const [rows, setRows] = useState(PAGE);
  const count = Math.min(rows, latent.values.length);
  return (
    <details class="panel point-table" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>The same points as a table</summary>
      {open && (
        <>
          <div class="scrolls" tabIndex={0} role="region" aria-label="Points">
            <table>
              <thead>
                <tr>
                  <th scope="col">{text.unit === "row" ? "Row" : "Token"}</th>
                  <th scope="col">z</th>
                  <th scope="col">z − rest</th>
                  {shown.map((axis, i) => (
                    <th scope="col" key={i}>
                      {"XYZ"[i]}: {columnName(axis, origin)}
                    </th>
                  ))}
                  <th scope="col">Best linear direction, from {origin}</th>
                </tr>
              </thead>
              <tbody>
                {Array.from({ length: count }, (_, i) => (
                  <tr key={i}>
                    <th scope="row">
                      <bdi>{text.vocabulary.text(latent.tokens[i])}</bdi>
                    </th>
                    <td>{signed(latent.values[i], 3)}</td>
                    <td>{signed(aboveRest(latent, i), 3)}</td>
                    {shown.map(({ values }, axis) => (
                      <td key={axis}>{signed(values[i])}</td>
                    ))}
                    <td>{signed(latent.linear[i])}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
          {count < latent.values.length && (
            <button type="button" onClick={() => setRows(rows + 4 * PAGE)}>
              Show more ({count} of {latent.values.length})
            </button>
          )}
        </>
      )}
    </details>
  );
}
