/** Long work that is done in calls of some seconds each. The console uses this file too. */

/** How much was done. */
export interface Done {
  readonly matched: number;
  readonly changed: number;
}

/** What one call did. */
export interface Step extends Done {
  /** Whether it ended early: then the caller calls again. */
  readonly more?: boolean;
}

/**
 * Calls until all is done.
 *
 * @param onStep called after each call with how much has been changed
 * @param most what was counted before: what matches again meanwhile is not done once more
 */
export async function untilDone(
  call: () => Promise<Step>,
  onStep: (changed: number) => void = () => {},
  most = Number.POSITIVE_INFINITY,
): Promise<Done> {
  let matched = 0;
  let changed = 0;
  for (;;) {
    const step = await call();
    matched += step.matched;
    changed += step.changed;
    onStep(changed);
    // A call that changed nothing would return the same again.
    if (!step.more || step.changed === 0 || changed >= most) return { matched, changed };
  }
}
