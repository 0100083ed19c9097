/**
 * Notices that this process did not run for a while: it was stopped (SIGSTOP), or its machine was paused. Then deadlines
 * are over that nobody else missed, and servers have ended connections that were silent for too long. Whoever reads the log
 * has to know that first, and that the clock was set, by which tokens end and, on SQLite, deliveries are due.
 */
import type { Logger } from 'pino';

const LOOK_EVERY_MS = 1_000;
/** A look that comes so much too late was no matter of load. */
const FROZEN_MS = 5_000;
/** The clock of the machine went so much further than time did: it was set. */
const SET_MS = 5_000;
const WENT_FORWARD =
  'it was set, or the machine slept; tokens and logins that ended in that time are refused, and on SQLite deliveries that waited for it are attempted now';
const WENT_BACK =
  'it was set; on SQLite deliveries that were put off before wait until it shows their time again: "postroom queue retry --status queued" attempts them at once';
/** For so long what connections report is explained by it. */
const EXPLAINS_MS = 5_000;

export interface Freezes {
  /** Whether this process goes on only since a moment ago. */
  wereJustNow(): boolean;
  stop(): void;
}

/** Writes one line after each freeze, and one after each change of the clock. It stands before the lines of all that noticed it by their sockets. */
export function watchFreezes(log: Pick<Logger, 'warn'>): Freezes {
  let last = performance.now();
  let resumedAt = Number.NEGATIVE_INFINITY;
  let zero = Date.now() - last;
  const lookAtClock = (now: number) => {
    const ms = Date.now() - now - zero;
    zero += ms;
    if (Math.abs(ms) < SET_MS) return;
    const seconds = Math.round(Math.abs(ms) / 1_000);
    if (ms > 0) log.warn({ seconds }, `the clock of this machine went forward: ${WENT_FORWARD}`);
    else log.warn({ seconds }, `the clock of this machine went back: ${WENT_BACK}`);
  };
  const look = () => {
    const now = performance.now();
    const ms = now - last - LOOK_EVERY_MS;
    last = now;
    lookAtClock(now);
    if (ms < FROZEN_MS) return;
    resumedAt = now;
    log.warn(
      { seconds: Math.round(ms / 1_000) },
      'this process was frozen: it was stopped, or its machine paused or overloaded; requests and mail that waited for it go on, and connections that were lost meanwhile are made again',
    );
  };
  const timer = setInterval(look, LOOK_EVERY_MS).unref();
  return {
    wereJustNow() {
      // What sockets have to report may come before the timer does.
      look();
      return performance.now() - resumedAt < EXPLAINS_MS;
    },
    stop: () => clearInterval(timer),
  };
}
