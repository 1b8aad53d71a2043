// The list of latents, with copies folded under the latent that they copy.
import { useEffect, useMemo, useState } from "preact/hooks";
import type { Unit } from "../data/site.ts";
import { SHAPES } from "../data/schema.ts";
import { statisticsOf } from "../data/statistics.ts";
import { LabelText, LinearChip } from "../ui/labels.tsx";
import { formatRoute, LATENT } from "../ui/route.ts";
import type { MapRoute } from "../ui/route.ts";
import { countEmpty } from "./selection.ts";
import type { HoverProps } from "./worth.tsx";

interface ListProps extends HoverProps {
  unit: Unit;
  route: MapRoute;
  /** Latents that pass, in order. */
  list: number[];
  /** The latent that each copies, or itself. */
  sources: Int32Array;
  folded: Uint8Array;
  onChange: (part: Partial<MapRoute>) => void;
}

const PAGE = 40;

export function LatentList(props: ListProps) {
  const { entry, unit, route, list, sources, folded, onChange } = props;
  const [rows, setRows] = useState(PAGE);
  const [opened, setOpened] = useState<ReadonlySet<number>>(new Set());
  useEffect(() => setRows(PAGE), [list]);
  const copies = useMemo(() => copiesUnder(list, sources, folded), [list, sources, folded]);
  const kept = useMemo(() => list.filter((latent) => !folded[latent]), [list, folded]);
  const turn = (latent: number) => {
    const next = new Set(opened);
    if (!next.delete(latent)) next.add(latent);
    setOpened(next);
  };
  const sort = (key: string) =>
    onChange(route.sort === key ? { ascending: !route.ascending } : { sort: key, ascending: false });
  const heading = (key: string, name: string, explain: string) => (
    <th scope="col" key={key} aria-sort={route.sort === key ? (route.ascending ? "ascending" : "descending") : "none"}>
      <button type="button" class="plain" title={explain} onClick={() => sort(key)}>
        {name}
        <span aria-hidden="true">{route.sort === key ? (route.ascending ? " ↑" : " ↓") : ""}</span>
      </button>
    </th>
  );
  return (
    <section class="panel list" aria-label="List of latents">
      <ListTitle {...props} kept={kept.length} copies={list.length - kept.length} />
      {list.length === 0 && <p class="quiet">No latent passes the filters; widen one.</p>}
      <div class="scrolls" tabIndex={0} role="region" aria-label="Latents">
        <table>
          <thead>
            <tr>
              {heading("latent", "Latent", "By index")}
              <th scope="col" class="wide">
                Label
              </th>
              {heading("shape", "Shape", "By shape")}
              {statisticsOf(entry.is_linear).map(({ key, name, explain }) => heading(key, name, explain(unit)))}
            </tr>
          </thead>
          <tbody>
            {kept.slice(0, rows).flatMap((latent) => {
              const under = copies.get(latent) ?? [];
              const row = (each: number) => (
                <LatentRow
                  key={each}
                  {...props}
                  latent={each}
                  copies={each === latent ? under.length : 0}
                  copied={each === latent ? null : latent}
                  open={opened.has(latent)}
                  onTurn={() => turn(latent)}
                />
              );
              return [row(latent), ...(opened.has(latent) ? under.map(row) : [])];
            })}
          </tbody>
        </table>
      </div>
      {rows < kept.length && (
        <button type="button" onClick={() => setRows(rows + 5 * PAGE)}>
          Show more ({rows} of {kept.length.toLocaleString("en")})
        </button>
      )}
    </section>
  );
}

function copiesUnder(list: number[], sources: Int32Array, folded: Uint8Array): Map<number, number[]> {
  const copies = new Map<number, number[]>();
  for (const latent of list)
    if (folded[latent]) copies.set(sources[latent], [...(copies.get(sources[latent]) ?? []), latent]);
  return copies;
}

/** How many latents are listed, what was left out, and by which rule they come. */
function ListTitle({ entry, index, route, kept, copies }: ListProps & { kept: number; copies: number }) {
  const all = index.labels.length;
  const empty = route.showEmpty ? 0 : countEmpty(index);
  const count = (number: number, one: string, many: string) =>
    number > 0 && `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
  const left = [count(copies, "copy folded", "copies folded"), count(empty, "empty latent hidden", "empty latents hidden")];
  const notes = [...left, route.sort === "worth" && !route.ascending && `by worth: ${entry.ranking}`];
  return (
    <>
      <h2>
        {kept === all ? "All" : kept.toLocaleString("en")} latents
        {kept < all && <span class="quiet"> of {all.toLocaleString("en")}</span>}
        {entry.is_linear && <LinearChip />}
      </h2>
      <p class="quiet list-note">{notes.filter(Boolean).join(" · ")}</p>
    </>
  );
}

interface RowProps extends HoverProps {
  latent: number;
  /** How many copies are folded under it. */
  copies: number;
  /** The latent that it copies, where it is listed under that one. */
  copied: number | null;
  open: boolean;
  onTurn: () => void;
}

function LatentRow({ entry, index, hovered, onHover, latent, copies, copied, open, onTurn }: RowProps) {
  return (
    <tr
      class={`${hovered === latent ? "hovered" : ""} ${copied === null ? "" : "copy"}`}
      onPointerEnter={() => onHover(latent)}
      onPointerLeave={() => onHover(null)}
    >
      <td class="number">{latent}</td>
      <th scope="row">
        <a href={formatRoute({ ...LATENT, dictionary: entry.name, latent })}>
          <LabelText index={index} latent={latent} />
        </a>
        {copied !== null && <span class="quiet"> copy of {copied}</span>}
        {copies > 0 && (
          <button type="button" class="plain fold" aria-expanded={open} onClick={onTurn}>
            {copies === 1 ? "1 copy" : `${copies} copies`} <span aria-hidden="true">{open ? "▴" : "▾"}</span>
          </button>
        )}
      </th>
      <td>{SHAPES[index.columns.shape![latent]]}</td>
      {statisticsOf(entry.is_linear).map(({ key, format }) => (
        <td key={key} class="value">
          {format(index.columns[key]![latent])}
        </td>
      ))}
    </tr>
  );
}
