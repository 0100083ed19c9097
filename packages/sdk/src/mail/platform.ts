/** What the engine takes from the world around it: time, chance, network, other tabs. Tests give their own. */

import { backoff } from '../transport.ts';

/** The part of WebSocket that is used. */
export interface Socket {
  onmessage: ((event: { readonly data: unknown }) => void) | null;
  onclose: ((event: { readonly code: number }) => void) | null;
  close(): void;
}

/** The part of BroadcastChannel that is used. */
export interface Channel {
  onmessage: ((event: { readonly data: unknown }) => void) | null;
  postMessage(message: unknown): void;
  close(): void;
}

/** What the client uses of its surroundings: time, randomness, the network; tests pass their own. */
export interface Platform {
  /** Milliseconds since 1970, by a clock that may be set. */
  now(): number;
  /** Milliseconds of a clock that is never set: what is waited for goes by it. */
  ticks(): number;
  /** From 0 to below 1. */
  random(): number;
  /** Calls once after so many milliseconds; returns what prevents it. */
  after(ms: number, call: () => void): () => void;
  readonly fetch: typeof fetch;
  /** Undefined where there are no WebSockets. */
  readonly connect: ((url: string, protocols: string[]) => Socket) | undefined;
  /** Undefined where there are no other tabs. */
  readonly openChannel: ((name: string) => Channel) | undefined;
  /** Calls back when the network may be back or the page is seen again, and when the page goes away. */
  listen(woken: () => void, leaving: () => void): () => void;
}

/** The one that this program runs on. */
export function thisPlatform(): Platform {
  const { WebSocket, BroadcastChannel } = globalThis as Partial<typeof globalThis>;
  return {
    now: () => Date.now(),
    ticks: () => performance.now(),
    random: () => Math.random(),
    after: (ms, call) => {
      // A timer of more than 24 days would run at once.
      const timer = setTimeout(call, Math.min(ms, 2 ** 31 - 1));
      return () => clearTimeout(timer);
    },
    fetch: (input, init) => fetch(input, init),
    connect: WebSocket && ((url, protocols) => new WebSocket(url, protocols) as Socket),
    openChannel:
      BroadcastChannel &&
      ((name) => {
        const channel = new BroadcastChannel(name);
        // In Node a channel alone does not keep the program running.
        (channel as { unref?: () => void }).unref?.();
        return channel as Channel;
      }),
    listen: listenToPage,
  };
}

function listenToPage(woken: () => void, leaving: () => void): () => void {
  const page = globalThis as unknown as EventTarget;
  const { document } = globalThis as { document?: EventTarget & { visibilityState: string } };
  if (!document) return () => undefined;
  const seen = () => document.visibilityState === 'visible' && woken();
  const events = [
    [page, 'online', woken],
    [page, 'pageshow', woken],
    [document, 'visibilitychange', seen],
    [document, 'resume', woken],
    [page, 'pagehide', leaving],
    [document, 'freeze', leaving],
  ] as const;
  for (const [target, name, call] of events) target.addEventListener(name, call);
  return () => {
    for (const [target, name, call] of events) target.removeEventListener(name, call);
  };
}

/** An id that nobody guesses; also on a page that came by plain HTTP, which has no randomUUID. */
export function makeId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** Half a second to half a minute. */
export function pauseAfter(failures: number, { random }: Platform): number {
  return backoff(failures, 30_000, random());
}
