/** What goes over a connection: how much, when, and whether its client keeps us waiting. */
import type { Wire } from '../../platform/net/net.ts';
import { timeouts } from './connection-settings.ts';
import { Bye } from './session.ts';

export class Traffic {
  readonly #wire: Wire;
  readonly #onOctets: ((direction: 'received' | 'sent', octets: number) => void) | undefined;
  /** When something came or was read last, by the monotonic clock. */
  activeAt = performance.now();
  /** Octets that the client sent, and those that it got. */
  received = 0;
  sent = 0;
  /** Whether the client has to read before we go on. */
  isWriting = false;
  /** Since when the mail server, to which a session is passed on, has to read before we go on. */
  #passingSince: number | undefined;

  /** @param onOctets called with how many came or were read */
  constructor(wire: Wire, onOctets?: (direction: 'received' | 'sent', octets: number) => void) {
    this.#wire = wire;
    this.#onOctets = onOctets;
  }

  /** Counts what came. */
  take(octets: number): void {
    this.activeAt = performance.now();
    this.received += octets;
    this.#onOctets?.('received', octets);
  }

  /** What the client sent is passed on to its mail server, or was. */
  passes(isPassing: boolean): void {
    this.#passingSince = isPassing ? performance.now() : undefined;
  }

  /** Whether the mail server does not read. @param now by the monotonic clock */
  isStuck(now: number): boolean {
    return this.#passingSince !== undefined && now - this.#passingSince > timeouts.blocked;
  }

  /** @returns nothing, or what to wait for, as {@link Wire.write} @throws Bye where the client left */
  write(octets: string | Uint8Array | readonly Uint8Array[]): Promise<void> | undefined {
    const waits = this.#wire.write(octets);
    this.isWriting = waits !== undefined;
    if (waits) return waits.then(() => this.#endWrite(octets));
    this.#endWrite(octets);
    return undefined;
  }

  #endWrite(octets: string | Uint8Array | readonly Uint8Array[]): void {
    this.isWriting = false;
    // What else the command would read is for nobody.
    if (this.#wire.isClosed) throw new Bye('The client left');
    this.activeAt = performance.now();
    const isOne = typeof octets === 'string' || octets instanceof Uint8Array;
    const length = isOne ? octets.length : octets.reduce((sum, piece) => sum + piece.length, 0);
    this.sent += length;
    this.#onOctets?.('sent', length);
  }
}
