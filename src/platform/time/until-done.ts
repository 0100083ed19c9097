/** Long work that is done in calls of some seconds each. The console uses this file too. */

/** How much was done. */
export interface Done {
  readonly matched: number;
  readonly changed: number;
}

/** What one call did. */
export interface Step<Next = string> extends Done {
  /** Whether it ended early: then the caller calls again. */
  readonly more?: boolean;
  /** Where the next call continues. */
  readonly next?: Next;
  /** What was left as it is, by the reason. */
  readonly skipped?: Readonly<Partial<Record<string, number>>>;
}

/** What all calls did. */
export interface Sum extends Done {
  readonly skipped: Readonly<Record<string, number>>;
}

/** Calls until all is done. @param goesOn called after each call with what has been done so far; false ends it */
export async function untilDone<Next = string>(
  call: (next: Next | undefined) => Promise<Step<Next>>,
  goesOn: (soFar: Sum) => boolean = () => true,
): Promise<Sum> {
  let matched = 0;
  let changed = 0;
  const skipped: Record<string, number> = {};
  let next: Next | undefined;
  for (;;) {
    const step = await call(next);
    matched += step.matched;
    changed += step.changed;
    for (const [why, count = 0] of Object.entries(step.skipped ?? {})) {
      skipped[why] = (skipped[why] ?? 0) + count;
    }
    next = step.next;
    const soFar = { matched, changed, skipped };
    if (!goesOn(soFar) || !step.more || next === undefined) return soFar;
  }
}
