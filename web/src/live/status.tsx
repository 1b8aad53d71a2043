import { progressText } from "../data/live.ts";
import { SiteError } from "../data/site.ts";
import type { Asked } from "./ask.ts";

/** What is happening to a question, or what went wrong. */
export function AnswerStatus({ asked, idle }: { asked: Asked<unknown>; idle: string }) {
  const { error } = asked;
  return (
    <p class={error ? "caution" : "quiet"} role="status">
      {error
        ? `${error instanceof Error ? error.message : String(error)}${error instanceof SiteError ? ` ${error.remedy}` : ""}`
        : asked.pending
          ? progressText(asked.progress)
          : idle}
    </p>
  );
}
