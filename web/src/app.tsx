import { Component } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Site } from "./data/site.ts";
import { Help } from "./ui/help.tsx";
import { useKeys, useLoaded, useTheme } from "./ui/hooks.ts";
import type { ThemeChoice } from "./ui/hooks.ts";
import { ComparePage } from "./compare/page.tsx";
import { LatentPage } from "./latent/page.tsx";
import { MapPage } from "./map/page.tsx";
import { TryPage } from "./live/page.tsx";
import { isLive } from "./data/live.ts";
import { COMPARE, formatRoute, LATENT, MAP, parseRoute, TRY } from "./ui/route.ts";
import type { Route } from "./ui/route.ts";
import type { DictionaryEntry } from "./data/schema.ts";
import { Search } from "./ui/search.tsx";
import { ProblemPage, Skeleton } from "./ui/states.tsx";

export function App() {
  const { value: site, error } = useLoaded("site", () => Site.open());
  const { theme, choice, choose } = useTheme();
  const { route, go } = useRoute();
  const [dialog, setDialog] = useState<"search" | "help" | null>(null);
  useKeys({ "/": () => setDialog("search"), "?": () => setDialog("help") });
  if (error) return <ProblemPage error={error} />;
  if (!site) return <Skeleton what="the site" />;
  const entry = site.dictionary(route.dictionary ?? site.manifest.dictionaries[0].name);
  const standing = entry ?? site.manifest.dictionaries[0];
  const openLatent = (latent: number) => {
    setDialog(null);
    go({ ...LATENT, dictionary: standing.name, latent }, true);
  };
  return (
    <>
      <Header
        {...{ site, choice, choose }}
        entry={standing}
        onDialog={setDialog}
        onDictionary={(name) => go({ ...MAP, dictionary: name }, true)}
      />
      <Guard key={`${route.dictionary} ${route.page}`}>
        {!entry ? (
          <NoSuchDictionary site={site} name={route.dictionary!} />
        ) : route.page === "map" ? (
          <MapPage key={entry.name} {...{ site, entry, route, theme, go }} />
        ) : route.page === "try" ? (
          <TryPage key={entry.name} {...{ entry, route, theme, go }} />
        ) : route.page === "compare" ? (
          <ComparePage key={`${entry.name} ${route.other}`} {...{ site, entry, route, theme, go }} />
        ) : (
          <LatentPage {...{ site, entry, route, theme, go }} />
        )}
      </Guard>
      <Footer site={site} entry={standing} />
      {dialog === "search" && (
        <Search site={site} entry={standing} onOpen={openLatent} onClose={() => setDialog(null)} />
      )}
      {dialog === "help" && <Help unit={site.unit(standing)} onClose={() => setDialog(null)} />}
    </>
  );
}

const TYPING_MS = 250;

/**
 * The route in the address as state; `remember` adds a step that the browser's Back undoes.
 *
 * While the reader types, the address follows after a pause: browsers refuse to change it at every key.
 */
function useRoute(): { route: Route; go: (next: Route, remember: boolean) => void } {
  const [route, setRoute] = useState<Route>(() => parseRoute(location.hash));
  const typing = useRef(0);
  useEffect(() => {
    const listen = () => {
      clearTimeout(typing.current);
      setRoute(parseRoute(location.hash));
    };
    window.addEventListener("hashchange", listen);
    return () => window.removeEventListener("hashchange", listen);
  }, []);
  const go = (next: Route, remember: boolean) => {
    clearTimeout(typing.current);
    const write = () => history[remember ? "pushState" : "replaceState"](null, "", formatRoute(next));
    if (!remember && textOf(next) !== textOf(route)) typing.current = window.setTimeout(write, TYPING_MS);
    else write();
    setRoute(next);
    if (remember) window.scrollTo(0, 0);
  };
  return { route, go };
}

function textOf(route: Route): string {
  return route.page === "latent" || route.page === "try" ? route.text : "";
}

function NoSuchDictionary({ site, name }: { site: Site; name: string }) {
  return (
    <ProblemPage error={new Error(`This site has no dictionary “${name}”.`)}>
      <p>
        {site.manifest.dictionaries.map(({ name: known }) => (
          <a key={known} href={`#/${encodeURIComponent(known)}`}>
            {known}{" "}
          </a>
        ))}
      </p>
    </ProblemPage>
  );
}

interface HeaderProps {
  site: Site;
  entry: DictionaryEntry;
  choice: ThemeChoice;
  choose: (choice: ThemeChoice) => void;
  onDialog: (dialog: "search" | "help") => void;
  onDictionary: (name: string) => void;
}

function Header({ site, entry, choice, choose, onDialog, onDictionary }: HeaderProps) {
  return (
    <header class="top">
      <a class="home" href={`#/${encodeURIComponent(entry.name)}`}>
        <Mark /> Quadric
      </a>
      {site.manifest.dictionaries.length > 1 && (
        <label class="dictionary">
          <span class="hidden">Dictionary</span>
          <select value={entry.name} onChange={(event) => onDictionary(event.currentTarget.value)}>
            {site.manifest.dictionaries.map(({ name, is_linear }) => (
              <option key={name} value={name}>
                {name}
                {is_linear ? " · linear" : ""}
              </option>
            ))}
          </select>
        </label>
      )}
      {isLive() && <a href={formatRoute({ ...TRY, dictionary: entry.name })}>Try it</a>}
      {site.comparedWith(entry.name).length > 0 && (
        <a class="compare-link" href={formatRoute({ ...COMPARE, dictionary: entry.name, other: site.comparedWith(entry.name)[0] })}>
          Compare
        </a>
      )}
      <button type="button" class="search-button" onClick={() => onDialog("search")}>
        Search latents and {site.unit(entry)}s <kbd>/</kbd>
      </button>
      <label class="theme">
        <span class="hidden">Theme</span>
        <select value={choice} onChange={(event) => choose(event.currentTarget.value as ThemeChoice)}>
          <option value="system">System theme</option>
          <option value="light">Light</option>
          <option value="dark">Dark</option>
        </select>
      </label>
      <button type="button" onClick={() => onDialog("help")} aria-label="Help">
        ?
      </button>
    </header>
  );
}

/** A hyperboloid with its axis. */
function Mark() {
  return (
    <svg class="logo" viewBox="0 0 24 24" width="22" height="22" aria-hidden="true">
      <path d="M4 3c5 5 5 13 0 18M20 3c-5 5-5 13 0 18" />
      <ellipse cx="12" cy="3.6" rx="8" ry="1.9" />
      <path d="M4 20.6c0 1 3.600 1.900 8 1.900s8-.9 8-1.900" />
      <path class="axis" d="M12 1v22" />
    </svg>
  );
}

function Footer({ site, entry }: { site: Site; entry: DictionaryEntry }) {
  const text = site.manifest.texts.find(({ name }) => name === entry.text);
  return (
    <footer class="bottom">
      {text?.attribution && <p>Text: {text.attribution}</p>}
      <p>
        Made with Quadric {site.manifest.package_version}. Labels: {entry.labels.offline}
        {entry.labels.written ? `; written by ${entry.labels.written}` : ""}.{" "}
        {entry.labels.scored ? `Scores of labels: ${entry.labels.scored}.` : "Unevaluated."}
      </p>
    </footer>
  );
}

/** Shows an error instead of a blank page when a page fails to render. */
class Guard extends Component<{ children: preact.ComponentChildren }, { error: unknown }> {
  override state = { error: null as unknown };

  static override getDerivedStateFromError(error: unknown) {
    return { error };
  }

  override componentDidCatch(error: unknown) {
    console.error(error);
  }

  override render() {
    return this.state.error ? <ProblemPage error={this.state.error} /> : this.props.children;
  }
}
