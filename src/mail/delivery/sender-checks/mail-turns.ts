/** The share of mail of the event loop: two hundred messages that come together would hold everybody else for the sum. */
import { enterTurn } from '../../../platform/net/net.ts';

/** Milliseconds of a turn: 20 usual messages, which share what a turn reads and commits. */
const SHARE = [{ name: 'mail', most: 25 }];

/** Begins a piece of work on mail. @returns what to wait for where all mail together has used its share of this turn */
export function enterTurnOfMail(): Promise<void> | undefined {
  return enterTurn(SHARE);
}
