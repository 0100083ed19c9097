/**
 * How long we wait for hosts that say nothing. RFC 5321 section 4.5.3.2 asks for 5 minutes until the greeting. Somebody
 * with many domains whose hosts accept and say nothing would fill all slots for as long. So a host that never answered
 * gets 30 s while others wait for a slot, and the whole time while nobody does.
 */
import { LRUCache } from 'lru-cache';
import { entries } from '../../platform/memory/memory.ts';
import { SmtpFailure } from '../../protocols/smtp-client/smtp-client.ts';

/** The slot of an attempt among all that are under way. */
export interface SendSlot {
  /** Whether somebody waits for a slot. */
  readonly isWanted: boolean;
  /** Called before a connection with its address; what it throws ends the attempt before that. */
  enter(address: string): void;
  /** Calls `end` where somebody waits for a slot. @returns to be called when that is over */
  whenWanted(end: () => void): () => void;
}

/** One connection that waits for its greeting. */
export interface Wait {
  /** Ends the connection. */
  readonly signal: AbortSignal;
  /** The host has said something. */
  onGreeting(): void;
  /** The connection has ended. @returns whether the host said nothing for the shorter time */
  end(): boolean;
}

const HOSTS_MAX = 10_000;
const SILENT = new SmtpFailure('the server did not greet us in time, and other mail waited');

export class Patience {
  readonly #ms: number;
  /** Addresses of hosts that have answered. */
  readonly #answering = new LRUCache<string, true>(entries(HOSTS_MAX));

  /** @param ms that a host has which never answered */
  constructor(ms: number) {
    this.#ms = ms;
  }

  /** @returns undefined where the host has all the time that the protocol gives it */
  begin(address: string, slot: SendSlot | undefined, stop: AbortSignal): Wait | undefined {
    if (!slot || this.#answering.has(address)) return undefined;
    const ended = new AbortController();
    let isSilent = false;
    let leave = () => {};
    const timer = setTimeout(() => {
      isSilent = true;
      leave = slot.whenWanted(() => ended.abort(SILENT));
    }, this.#ms);
    const end = () => {
      clearTimeout(timer);
      leave();
    };
    return {
      signal: AbortSignal.any([stop, ended.signal]),
      onGreeting: () => {
        this.#answering.set(address, true);
        isSilent = false;
        end();
      },
      end: () => {
        end();
        return isSilent;
      },
    };
  }
}
