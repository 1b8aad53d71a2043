// Two dictionaries side by side: the counterpart of every latent, and those that have none.
import { useEffect, useMemo, useState } from "preact/hooks";
import type { Theme } from "../scene/colours.ts";
import { NOTHING, SHAPES } from "../data/schema.ts";
import type { DictionaryEntry } from "../data/schema.ts";
import { kindOf } from "../data/site.ts";
import type { Index, Site } from "../data/site.ts";
import { useLoaded } from "../ui/hooks.ts";
import { LabelText } from "../ui/labels.tsx";
import { COMPARE, formatRoute, LATENT } from "../ui/route.ts";
import type { CompareRoute } from "../ui/route.ts";
import { ProblemPage, Skeleton } from "../ui/states.tsx";
import { countWith, hasCounterpart, listed, ORDERS, SHOWN } from "./counterparts.ts";
import type { Counterparts, Order } from "./counterparts.ts";
import { Pair } from "./pair.tsx";

const PAGE = 50;

interface Props {
  site: Site;
  entry: DictionaryEntry;
  route: CompareRoute;
  theme: Theme;
  go: (route: CompareRoute, remember: boolean) => void;
}

export function ComparePage(props: Props) {
  const { site, entry, route } = props;
  const other = site.dictionary(route.other);
  const index = useLoaded(entry.name, () => site.index(entry));
  const others = useLoaded(`other ${route.other}`, () => (other ? site.index(other) : null));
  const pairs = useLoaded(`pairs ${entry.name} ${route.other}`, () => site.counterparts(entry.name, route.other));
  useEffect(() => {
    document.title = `${entry.name} and ${route.other} · Quadric`;
  }, [entry.name, route.other]);
  const error = index.error ?? others.error ?? pairs.error;
  if (error) return <ProblemPage error={error} />;
  if (!other || !index.value || !others.value || !pairs.value) return <Skeleton what="the comparison" />;
  const loaded = { other, index: index.value, otherIndex: others.value, pairs: pairs.value };
  return (
    <main class="compare-page">
      <Title {...props} {...loaded} />
      <Summary {...props} {...loaded} />
      {route.pair !== null && <Pair {...props} {...loaded} latent={route.pair} />}
      <List {...props} {...loaded} />
    </main>
  );
}

interface LoadedProps extends Props {
  other: DictionaryEntry;
  index: Index;
  otherIndex: Index;
  pairs: Counterparts;
}

function Title({ site, entry, other, go }: LoadedProps) {
  const known = site.comparedWith(entry.name);
  return (
    <header class="map-title compare-title">
      <h1>
        <bdi>{entry.name}</bdi> and <bdi>{other.name}</bdi>
      </h1>
      <p class="toolbar">
        {known.length > 1 && (
          <label>
            Compare with
            <select value={other.name} onChange={(event) => go({ ...COMPARE, dictionary: entry.name, other: event.currentTarget.value }, true)}>
              {known.map((name) => (
                <option key={name} value={name}>
                  {name}
                </option>
              ))}
            </select>
          </label>
        )}
        <a href={formatRoute({ ...COMPARE, dictionary: other.name, other: entry.name })}>Swap sides</a>
      </p>
    </header>
  );
}

/** What each dictionary is, how many latents they share, and what chance would give. */
function Summary({ entry, other, pairs }: LoadedProps) {
  const both = countWith(pairs);
  const { smallest_overlap, chance, frobenius, alignment, method } = pairs.entry;
  const alone = (each: DictionaryEntry) => (
    <div key={each.name}>
      <h2>
        <bdi>{each.name}</bdi>
      </h2>
      <p class="figure">
        {(each.n_latents - both).toLocaleString("en")} <small class="quiet">of {each.n_latents.toLocaleString("en")} without a counterpart</small>
      </p>
      <p class="quiet">
        {kindOf(each)}
        {each.quality.error === null ? "" : `, error ${each.quality.error.toFixed(3)}`}
        {each.quality.error_quadratic === null ? "" : `, of the quadratic block ${each.quality.error_quadratic.toFixed(2)}`}
      </p>
    </div>
  );
  return (
    <section class="panel compare-summary" aria-label="Agreement">
      {alone(entry)}
      <div>
        <h2>Counterparts</h2>
        <p class="figure">
          {both.toLocaleString("en")} <small class="quiet">pairs with overlap ≥ {smallest_overlap.toFixed(2)}</small>
        </p>
        <p class="quiet">
          Chance reaches {chance.toFixed(2)} (99th percentile). Sim<sub>F</sub> {frobenius.toFixed(2)}, alignment{" "}
          {alignment.toFixed(2)}.
        </p>
      </div>
      {alone(other)}
      <p class="quiet method">Matching: {method}.</p>
    </section>
  );
}

const NAMES = { all: "All latents", with: "With a counterpart", without: "Without one" };
const BY: Record<Order, string> = { worth: "worth a look", overlap: "overlap", latent: "number" };

function List(props: LoadedProps) {
  const { entry, other, route, index, pairs, go } = props;
  const [rows, setRows] = useState(PAGE);
  const latents = useMemo(
    () => listed(pairs, index.columns.worth!, route.show, route.order),
    [pairs, index, route.show, route.order],
  );
  useEffect(() => setRows(PAGE), [latents]);
  return (
    <section class="panel list" aria-label="Latents">
      <h2>
        {latents.length.toLocaleString("en")} latents of <bdi>{entry.name}</bdi>
      </h2>
      <div class="toolbar" role="toolbar" aria-label="List">
        <div class="segments" role="group" aria-label="Show">
          {SHOWN.map((show) => (
            <button key={show} type="button" aria-pressed={route.show === show} onClick={() => go({ ...route, show }, false)}>
              {NAMES[show]}
            </button>
          ))}
        </div>
        <label>
          By
          <select
            aria-label="Order"
            value={route.order}
            onChange={(event) => go({ ...route, order: event.currentTarget.value as Order }, false)}
          >
            {ORDERS.map((order) => (
              <option key={order} value={order}>
                {BY[order]}
              </option>
            ))}
          </select>
        </label>
      </div>
      <div class="scrolls">
        <table>
          <thead>
            <tr>
              <th scope="col" class="wide" colSpan={3}>
                <bdi>{entry.name}</bdi>
              </th>
              <th scope="col">Overlap</th>
              <th scope="col" class="wide" colSpan={3}>
                Counterpart in <bdi>{other.name}</bdi>
              </th>
              <th scope="col">
                <span class="hidden">Pictures</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {latents.slice(0, rows).map((latent) => (
              <Row key={latent} {...props} latent={latent} />
            ))}
          </tbody>
        </table>
      </div>
      {rows < latents.length && (
        <button type="button" onClick={() => setRows(rows + 5 * PAGE)}>
          Show more ({rows} of {latents.length.toLocaleString("en")})
        </button>
      )}
    </section>
  );
}

function Row({ entry, other, route, index, otherIndex, pairs, latent, go }: LoadedProps & { latent: number }) {
  const partner = pairs.partners[latent];
  const has = hasCounterpart(pairs, latent);
  return (
    <tr>
      <td class="number">{latent}</td>
      <th scope="row">
        <a href={formatRoute({ ...LATENT, dictionary: entry.name, latent })}>
          <LabelText index={index} latent={latent} />
        </a>
      </th>
      <td>{SHAPES[index.columns.shape![latent]]}</td>
      <td class="value">{partner === NOTHING ? "–" : pairs.overlaps[latent].toFixed(2)}</td>
      {partner === NOTHING ? (
        <td class="quiet wide" colSpan={3}>
          none is left for it
        </td>
      ) : (
        <>
          <td class="number">{partner}</td>
          <td class={`wide ${has ? "" : "quiet"}`}>
            {!has && "none; matched with: "}
            <a href={formatRoute({ ...LATENT, dictionary: other.name, latent: partner })}>
              <LabelText index={otherIndex} latent={partner} />
            </a>
          </td>
          <td>{SHAPES[otherIndex.columns.shape![partner]]}</td>
        </>
      )}
      <td>
        {partner !== NOTHING && (
          <button
            type="button"
            class="plain"
            aria-pressed={route.pair === latent}
            aria-label={`Pictures of latent ${latent} and its counterpart ${partner}`}
            onClick={() => go({ ...route, pair: route.pair === latent ? null : latent }, true)}
          >
            Pictures
          </button>
        )}
      </td>
    </tr>
  );
}
