// What is shown while data loads, and when it cannot be loaded.
import { SiteError } from "../data/site.ts";

export function Problem({ error, children }: { error: unknown; children?: preact.ComponentChildren }) {
  const known = error instanceof SiteError;
  return (
    <section class="problem" role="alert">
      <h1>{known ? error.title : "Something went wrong"}</h1>
      <p>{error instanceof Error ? error.message : String(error)}</p>
      {known && <p class="remedy">{error.remedy}</p>}
      {children}
    </section>
  );
}

/** A problem that takes the whole page. */
export function ProblemPage(props: { error: unknown; children?: preact.ComponentChildren }) {
  return (
    <main>
      <Problem {...props} />
    </main>
  );
}

export function Skeleton({ what }: { what: string }) {
  return (
    <div class="skeleton" role="status" aria-label={`Loading ${what}`}>
      <div class="bone wide" />
      <div class="bone tall" />
      <div class="bone" />
      <div class="bone" />
    </div>
  );
}
