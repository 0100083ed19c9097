/** How instants are written. */

/** An instant: the milliseconds since 1970-01-01T00:00:00Z, as `Date.now()` has them. */
export type EpochMs = number;
