// All data of a site is read through this file.
import { COLUMNS, FORMAT, NOTHING, SCHEMA_VERSION, SHARD_TOKENS, UNITS } from "./schema.ts";
import type { Column, DictionaryEntry, LatentClusters, LatentLabel, LatentPattern, SiteManifest, TextEntry } from "./schema.ts";
import { floats, gunzip, integers, parseTensors, scaledRows, wholeNumbers } from "./safetensors.ts";
import type { Tensors } from "./safetensors.ts";
import { turned } from "../compare/counterparts.ts";
import type { Counterparts } from "../compare/counterparts.ts";
import { Vocabulary } from "./vocabulary.ts";

/** What went wrong, in words for a reader, and what to do about it. */
export class SiteError extends Error {
  readonly title: string;
  readonly remedy: string;

  constructor(title: string, detail: string, remedy: string) {
    super(detail);
    this.title = title;
    this.remedy = remedy;
  }
}

export interface Context {
  point: number;
  tokens: number[];
}

export interface Latent {
  latent: number;
  /** Whether it is a direction of a linear dictionary, which has no quadratic part and a gate before z. */
  isLinear: boolean;
  /** Of the quadratic part, by |λ|. */
  eigenvalues: Float32Array;
  rank: number;
  totalWeight: number;
  /** Along each axis z changes by axisQuadratic·ξ² + axisLinear·ξ; at the origin it is `constant`. */
  axisQuadratic: Float32Array;
  axisLinear: Float32Array;
  axisKind: Int32Array;
  constant: number;
  /** Median of z over all data. */
  rest: number;
  /** Share of z's variance that no linear function explains: from the weights, and as measured. */
  curvature: number;
  measuredCurvature: number;
  places: Uint32Array;
  tokens: Uint32Array;
  values: Float32Array;
  /** One array per axis. */
  coordinates: Float32Array[];
  control: Float32Array[];
  /** Coordinate on the direction that best predicts z linearly. */
  linear: Float32Array;
  /** Cluster of each point, or NOTHING. */
  clusters: Int32Array;
  contexts: [Context[], Context[]];
  neighbours: { latent: number; overlap: number }[];
  quantiles: Float32Array;
  lifts: [Lift[], Lift[]];
}
export interface Lift {
  token: number;
  lift: number;
}

/** What kind of dictionary it is, in two words; older sites have no linear ones. */
export function kindOf({ is_linear, prior, lens }: DictionaryEntry): string {
  return is_linear ? `linear (${prior})` : `${prior} prior, ${lens} lens`;
}

export interface Index {
  columns: Partial<Record<Column, Float32Array>>;
  labels: LatentLabel[];
}

/** What a point is: a token that a language model read, or a row of a user's own tensor. */
export type Unit = (typeof UNITS)[number];

export interface SiteText {
  entry: TextEntry;
  unit: Unit;
  vocabulary: Vocabulary;
  sequenceStarts: Uint32Array;
  documentStarts: Uint32Array;
}

export class Site {
  readonly manifest: SiteManifest;
  private readonly stored = new Map<string, Promise<unknown>>();

  constructor(manifest: SiteManifest) {
    this.manifest = manifest;
  }

  static async open(): Promise<Site> {
    const manifest = await readJson<SiteManifest>("data/site.json");
    if (manifest?.format !== FORMAT)
      throw new SiteError(
        "Not a Quadric site",
        "data/site.json does not describe one.",
        "Export it with quadric site.",
      );
    if (manifest.schema_version !== SCHEMA_VERSION)
      throw new SiteError(
        ...unreadable(manifest.schema_version),
      );
    return new Site(manifest);
  }

  dictionary(name: string): DictionaryEntry | undefined {
    return this.manifest.dictionaries.find((entry) => entry.name === name);
  }

  unit(entry: DictionaryEntry): Unit {
    return unitOf(this.manifest.texts.find(({ name }) => name === entry.text));
  }

  index(entry: DictionaryEntry): Promise<Index> {
    return this.once(`index ${entry.name}`, async () => {
      const [tensors, labels] = await Promise.all([
        readTensors(`data/${entry.name}/index.st`),
        readJson<LatentLabel[]>(`data/${entry.name}/labels.json.gz`),
      ]);
      const columns: Index["columns"] = {};
      for (const name of COLUMNS) if (tensors.has(name)) columns[name] = floats(tensors, name);
      return { columns, labels };
    });
  }

  latent(entry: DictionaryEntry, latent: number): Promise<Latent> {
    if (!Number.isInteger(latent) || latent < 0 || latent >= entry.n_latents)
      return Promise.reject(
        new SiteError(
          `There is no latent ${latent}`,
          `The dictionary “${entry.name}” has latents 0 to ${entry.n_latents - 1}.`,
          "Choose one from the map, or search with /.",
        ),
      );
    const path = `data/${entry.name}/latents/${String(latent).padStart(5, "0")}.st`;
    return this.once(path, async () => decoded(path, await readTensors(path), (tensors) => decodeLatent(tensors, entry.is_linear)));
  }

  /** What was found in the latents that were searched for clusters, by latent; null where none was. */
  clusters(entry: DictionaryEntry): Promise<Record<string, LatentClusters> | null> {
    if (!entry.clusters) return Promise.resolve(null);
    const path = `data/${entry.name}/clusters.json.gz`;
    return this.once(path, () => readJson<Record<string, LatentClusters>>(path));
  }

  /** The tests of the latents that were tested for patterns, by latent; null where none was, as in older sites. */
  patterns(entry: DictionaryEntry): Promise<Record<string, LatentPattern[]> | null> {
    if (!entry.patterns) return Promise.resolve(null);
    const path = `data/${entry.name}/patterns.json.gz`;
    return this.once(path, () => readJson<Record<string, LatentPattern[]>>(path));
  }

  /** Names of the dictionaries that one was compared with; older sites have no comparisons. */
  comparedWith(name: string): string[] {
    const pairs = (this.manifest.comparisons ?? []).map(({ first, second }) => [first, second]);
    return pairs.filter((pair) => pair.includes(name)).map(([first, second]) => (first === name ? second : first));
  }

  /** The counterparts of one dictionary's latents in another; an error if the two were not compared. */
  counterparts(name: string, other: string): Promise<Counterparts> {
    const all = this.manifest.comparisons ?? [];
    const number = all.findIndex(({ first, second }) => (first === name && second === other) || (first === other && second === name));
    const entry = all[number];
    if (!entry)
      return Promise.reject(
        new SiteError(
          "These dictionaries were not compared",
          `There is no comparison of “${name}” with “${other}”: they read different vectors, or the site was exported without it.`,
          "Export both with quadric site, from one hook point.",
        ),
      );
    const path = `data/comparisons/${String(number).padStart(5, "0")}.st`;
    const latents = this.dictionary(name)!.n_latents;
    return this.once(`${path} ${name}`, async () =>
      decoded(path, await readTensors(path), (tensors) => {
        const pairs = { entry, partners: integers(tensors, "partners"), overlaps: floats(tensors, "overlaps") };
        return entry.first === name ? pairs : turned(pairs, latents);
      }),
    );
  }

  text(name: string): Promise<SiteText> {
    return this.once(`text ${name}`, async () => {
      const entry = this.manifest.texts.find((text) => text.name === name)!;
      const folder = `data/texts/${name}`;
      const [words, sequences] = await Promise.all([
        readTensors(`${folder}/vocabulary.st`),
        readTensors(`${folder}/sequences.st`),
      ]);
      const vocabulary = decoded(`${folder}/vocabulary.st`, words, (tensors) => {
        return new Vocabulary(tensors.get("bytes")!.data as Uint8Array, wholeNumbers(tensors, "lengths"));
      });
      return decoded(`${folder}/sequences.st`, sequences, (tensors) => ({
        entry,
        unit: unitOf(entry),
        vocabulary,
        sequenceStarts: starts(wholeNumbers(tensors, "sequence_lengths")),
        documentStarts: starts(wholeNumbers(tensors, "document_lengths")),
      }));
    });
  }

  /** Tokens around a place of the text, at most `reach` on each side and never beyond its sequence. */
  async around(text: SiteText, place: number, reach: number): Promise<{ from: number; tokens: number[] }> {
    const sequence = lastAtMost(text.sequenceStarts, place);
    const end = text.sequenceStarts[sequence + 1] ?? text.entry.n_tokens;
    const from = Math.max(text.sequenceStarts[sequence], place - reach);
    const to = Math.min(end, place + reach + 1);
    const tokens: number[] = [];
    for (let shard = Math.floor(from / SHARD_TOKENS); shard * SHARD_TOKENS < to; shard++) {
      const ids = await this.shard(text.entry.name, shard);
      const base = shard * SHARD_TOKENS;
      tokens.push(...ids.subarray(Math.max(0, from - base), Math.max(0, to - base)));
    }
    return { from, tokens };
  }

  private shard(text: string, shard: number): Promise<Uint32Array> {
    const path = `data/texts/${text}/${String(shard).padStart(5, "0")}.st`;
    return this.once(path, async () =>
      decoded(path, await readTensors(path), (tensors) => wholeNumbers(tensors, "token_ids")),
    );
  }

  /** For a token, the latents it drives and its share of Σz² over their points, largest first. */
  async latentsOfToken(entry: DictionaryEntry, token: number): Promise<{ latent: number; share: number }[]> {
    const path = `data/${entry.name}/tokens.st`;
    const index = await this.once(path, async () =>
      decoded(path, await readTensors(path), (tensors) => ({
        starts: starts(wholeNumbers(tensors, "counts")),
        latents: wholeNumbers(tensors, "latents"),
        shares: tensors.get("shares")!.data,
      })),
    );
    const to = index.starts[token + 1] ?? index.latents.length;
    const found = [];
    for (let i = index.starts[token]; i < to; i++)
      found.push({ latent: index.latents[i], share: index.shares[i] / 255 });
    return found;
  }

  private once<T>(key: string, read: () => Promise<T>): Promise<T> {
    let promise = this.stored.get(key) as Promise<T> | undefined;
    if (!promise) {
      promise = read();
      promise.catch(() => this.stored.delete(key)); // a failure may be temporary: let the next visit try again
      this.stored.set(key, promise);
    }
    return promise;
  }
}

/** What coordinates are measured from. */
export function originOf(entry: DictionaryEntry, unit: Unit): string {
  return entry.centre_norm > 0 ? `the mean ${unit}` : "the origin";
}

/** Title, detail and remedy for a site of another version. */
export function unreadable(version: number): [string, string, string] {
  const detail = `Its data has schema version ${version}; this viewer reads version ${SCHEMA_VERSION}.`;
  if (version > SCHEMA_VERSION)
    return ["This site is newer than its viewer", detail, "Upgrade with pip install -U quadric and export the site again."];
  return [
    "This site is too old for this viewer",
    `${detail} Its coordinates are not measured from the mean, so shapes drawn from it would mislead.`,
    "Export it again with quadric site.",
  ];
}

function unitOf(text: TextEntry | undefined): Unit {
  return UNITS.find((unit) => unit === text?.unit) ?? "token";
}

export function starts(lengths: Uint32Array): Uint32Array {
  let sum = 0;
  return lengths.map((length) => (sum += length) - length);
}

/** Index of the last of ascending numbers that does not exceed a number. */
export function lastAtMost(ascending: Uint32Array, number: number): number {
  let low = 0;
  let high = ascending.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ascending[middle] <= number) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

export function decodeLatent(tensors: Tensors, isLinear = false): Latent {
  const scales = floats(tensors, "coordinate_scales");
  const fine = Math.min(3, scales.length);
  const [values] = scaledRows(tensors, "values", floats(tensors, "value_scale"));
  const overlaps = floats(tensors, "overlaps");
  const latent = {
    latent: integers(tensors, "latent")[0],
    isLinear,
    eigenvalues: floats(tensors, "eigenvalues"),
    rank: integers(tensors, "rank")[0],
    totalWeight: floats(tensors, "total_weight")[0],
    axisQuadratic: floats(tensors, "axis_quadratic"),
    axisLinear: floats(tensors, "axis_linear"),
    axisKind: integers(tensors, "axis_kind"),
    constant: floats(tensors, "constant")[0],
    rest: floats(tensors, "rest")[0],
    curvature: floats(tensors, "curvature")[0],
    measuredCurvature: floats(tensors, "measured_curvature")[0],
    places: wholeNumbers(tensors, "places"),
    tokens: wholeNumbers(tensors, "tokens"),
    values,
    coordinates: [
      ...scaledRows(tensors, "coordinates_fine", scales.subarray(0, fine)),
      ...scaledRows(tensors, "coordinates_coarse", scales.subarray(fine)),
    ],
    control: scaledRows(tensors, "control", floats(tensors, "control_scales")),
    linear: scaledRows(tensors, "linear", floats(tensors, "linear_scale"))[0],
    clusters: clustersOf(tensors, values.length),
    contexts: contextsOf(tensors),
    neighbours: Array.from(integers(tensors, "neighbours"), (id, rank) => ({ latent: id, overlap: overlaps[rank] })),
    quantiles: floats(tensors, "quantiles"),
    lifts: liftsOf(tensors),
  };
  const rows = [...latent.coordinates, ...latent.control, latent.linear, latent.tokens, latent.clusters];
  if (rows.some((row) => row.length !== values.length) || latent.axisKind.length !== latent.coordinates.length)
    throw new Error("its columns differ in length");
  return latent;
}

/** Stored plus one, so that 0 is no cluster; older sites have no such tensor. */
function clustersOf(tensors: Tensors, count: number): Int32Array {
  if (!tensors.has("clusters")) return new Int32Array(count).fill(NOTHING);
  return Int32Array.from(wholeNumbers(tensors, "clusters"), (number) => number - 1);
}

function contextsOf(tensors: Tensors): [Context[], Context[]] {
  const points = integers(tensors, "contexts");
  const tokens = integers(tensors, "context_tokens");
  const count = points.length / 2;
  const width = count ? tokens.length / points.length : 0;
  const of = (sign: number) =>
    Array.from({ length: count }, (_, i) => sign * count + i)
      .filter((i) => points[i] !== NOTHING)
      .map((i) => ({ point: points[i], tokens: [...tokens.subarray(i * width, (i + 1) * width)] }));
  return [of(0), of(1)];
}

function liftsOf(tensors: Tensors): [Lift[], Lift[]] {
  const tokens = integers(tensors, "lift_tokens");
  const lifts = floats(tensors, "lifts");
  const count = tokens.length / 2;
  const of = (sign: number) =>
    Array.from({ length: count }, (_, i) => ({ token: tokens[sign * count + i], lift: lifts[sign * count + i] }));
  return [of(0).filter(({ token }) => token !== NOTHING), of(1).filter(({ token }) => token !== NOTHING)];
}

async function read(path: string): Promise<ArrayBuffer> {
  let response: Response;
  try {
    response = await fetch(path);
  } catch {
    throw new SiteError(
      "The server does not respond",
      `${path} could not be fetched.`,
      "Is quadric view still running?",
    );
  }
  if (response.status === 404)
    throw new SiteError("A file of this site is missing", `${path} is not there.`, "Export or upload the site again.");
  if (!response.ok)
    throw new SiteError(
      "The server refused a file",
      `${path}: status ${response.status}.`,
      "Look at the server's log.",
    );
  const content = await response.arrayBuffer();
  try {
    return await gunzip(content);
  } catch {
    throw broken(path, "it is cut short or was changed");
  }
}

function broken(path: string, why: string): SiteError {
  return new SiteError(
    "A file of this site is damaged",
    `${path} cannot be read: ${why}.`,
    "Export or upload it again.",
  );
}

async function readTensors(path: string): Promise<Tensors> {
  return decoded(path, await read(path), parseTensors);
}

function decoded<A, B>(path: string, from: A, decode: (from: A) => B): B {
  try {
    return decode(from);
  } catch (problem) {
    throw broken(path, problem instanceof Error ? problem.message : String(problem));
  }
}

async function readJson<T>(path: string): Promise<T> {
  return decoded(path, await read(path), (content) => JSON.parse(new TextDecoder().decode(content)) as T);
}
