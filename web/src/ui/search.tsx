// Finds a latent by index, label or token.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Index, Site, Unit } from "../data/site.ts";
import { labelOf } from "./labels.tsx";
import type { DictionaryEntry } from "../data/schema.ts";
import { visible } from "../data/vocabulary.ts";

interface Found {
  latent: number;
  why: string;
}

interface Props {
  site: Site;
  entry: DictionaryEntry;
  onOpen: (latent: number) => void;
  onClose: () => void;
}

type State = "idle" | "searching" | "done" | { problem: string };

/** Results of the latest query; results of older ones are dropped. */
function useFound(site: Site, entry: DictionaryEntry, query: string) {
  const [found, setFound] = useState<Found[]>([]);
  const [state, setState] = useState<State>("idle");
  const [index, setIndex] = useState<Index | null>(null);
  const fail = (problem: Error) => setState({ problem: problem.message });
  useEffect(() => {
    site.index(entry).then(setIndex, fail);
  }, []);
  useEffect(() => {
    let current = true;
    if (!query.trim() || !index) {
      setFound([]);
      setState("idle");
      return;
    }
    setState("searching");
    const finish = (results: Found[]) => {
      if (!current) return;
      setFound(results);
      setState("done");
    };
    find(site, entry, index, query).then(finish, (problem: Error) => current && fail(problem));
    return () => {
      current = false;
    };
  }, [query, index]);
  return { found, state, index };
}

function statusText(state: State, count: number, unit: Unit): string {
  if (typeof state === "object") return state.problem;
  if (state === "searching") return "…";
  if (state === "idle") return "↑ ↓ to choose, Enter to open, Esc to close";
  return count ? `${count} found` : `Nothing found. Only ${unit}s that drive a latent's strongest points are indexed.`;
}

export function Search({ site, entry, onOpen, onClose }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [query, setQuery] = useState("");
  const [at, setAt] = useState(0);
  const { found, state, index } = useFound(site, entry, query);
  const unit = site.unit(entry);
  useEffect(() => dialog.current?.showModal(), []);
  useEffect(() => setAt(0), [query]);
  const keys = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown") setAt(Math.min(found.length - 1, at + 1));
    else if (event.key === "ArrowUp") setAt(Math.max(0, at - 1));
    else if (event.key === "Enter" && found[at]) onOpen(found[at].latent);
    else return;
    event.preventDefault();
  };
  return (
    <dialog
      ref={dialog}
      class="search"
      aria-label="Search"
      onClose={onClose}
      onClick={(event) => event.target === dialog.current && onClose()}
    >
      <input
        type="text"
        list={undefined}
        role="combobox"
        aria-label={`Search by label, index or ${unit}`}
        aria-expanded={found.length > 0}
        aria-controls="found"
        aria-activedescendant={found[at] ? `found-${at}` : undefined}
        placeholder={`A label, an index, or a ${unit}`}
        value={query}
        autofocus
        onInput={(event) => setQuery(event.currentTarget.value)}
        onKeyDown={keys}
      />
      <FoundList {...{ found, index, at, onOpen }} onAt={setAt} />
      <p class="quiet" role="status">
        {statusText(state, found.length, unit)}
      </p>
    </dialog>
  );
}

interface FoundProps {
  found: Found[];
  index: Index | null;
  at: number;
  onAt: (at: number) => void;
  onOpen: (latent: number) => void;
}

function FoundList({ found, index, at, onAt, onOpen }: FoundProps) {
  return (
    <ul id="found" role="listbox" aria-label="Latents found" tabIndex={-1}>
      {found.map(({ latent, why }, i) => (
        <li
          key={`${latent} ${why}`}
          id={`found-${i}`}
          role="option"
          aria-selected={i === at}
          onClick={() => onOpen(latent)}
          onPointerMove={() => onAt(i)}
        >
          <span class="number">{latent}</span>
          <bdi class="label">{labelOf(index, latent)}</bdi>
          <span class="why quiet">
            <bdi>{why}</bdi>
          </span>
        </li>
      ))}
    </ul>
  );
}

const MOST = 40;

export async function find(site: Site, entry: DictionaryEntry, index: Index, query: string): Promise<Found[]> {
  const wanted = query.trim().toLowerCase();
  const found = new Map<number, Found>();
  const number = Number(wanted.replace(/^#/, ""));
  if (Number.isInteger(number) && number >= 0 && number < entry.n_latents)
    found.set(number, { latent: number, why: "index" });
  index.labels.forEach((label, latent) => {
    const text = `${label.written ?? ""} ${label.text} ${label.positive} ${label.negative}`.toLowerCase();
    if (found.size >= MOST / 2 || !text.includes(wanted) || found.has(latent)) return;
    const seen = labelOf(index, latent).toLowerCase().includes(wanted);
    found.set(latent, { latent, why: seen ? "label" : `label ${visible(label.text)}` });
  });
  const text = await site.text(entry.text);
  for (const token of text.vocabulary.find(query)) {
    for (const { latent, share } of await site.latentsOfToken(entry, token)) {
      if (found.size >= MOST) return [...found.values()];
      const why = `${text.unit} “${text.vocabulary.text(token).trim()}”, ${share < 0.01 ? "< 1" : Math.round(100 * share)} % of its Σz²`;
      if (!found.has(latent)) found.set(latent, { latent, why });
    }
  }
  return [...found.values()];
}
