/** How instants are written, work that is repeated, outages that are told once, and promises with a deadline. */

export { Outage } from './outage.ts';
export { Repeat, within } from './repeat.ts';
export { type Done, type Step, untilDone } from './until-done.ts';

/** An instant: the milliseconds since 1970-01-01T00:00:00Z, as `Date.now()` has them. */
export type EpochMs = number;
