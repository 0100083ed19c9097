/**
 * Asks SpamFilter about a message (`POST /checkv2`), and decides what follows from its answer.
 *
 * It only adds to what the sender checks found. Where SpamFilter is dead, or its answer cannot be read, mail is accepted as
 * if there were no filter: a failed filter must not stop mail. One message without an answer says nothing about the
 * filter. After several in a row the filter is not asked for a while. At the start it gets a ping, so that a wrong URL is told
 * before there is mail.
 *
 * Senders must not switch it off, for others or for themselves. They choose what is slow to judge, such as links to names
 * whose servers do not answer. So a late answer counts as a failure only where the filter does not answer a ping either;
 * where it does, the message is deferred. Rspamd itself ends the work on a message after 8 seconds (`task_timeout`), and
 * says what it has found by then: we wait for longer. And no client gets all slots at it: who waits too long for one is
 * deferred, too.
 */
import type { Readable } from 'node:stream';
import { setTimeout as pause } from 'node:timers/promises';
import type { Pool } from 'undici';
import { clientKey, inTime, networkKey, Turns } from '../../platform/net/net.ts';

/** What to do with a message: accept it, put it into Junk, defer it with 451, or refuse it with 550. */
export type SpamAction = 'accept' | 'junk' | 'defer' | 'reject';

export interface SpamVerdict {
  readonly action: SpamAction;
  readonly score: number;
  /** The score from which SpamFilter rejects. */
  readonly required: number;
}

/** `failed`: there was no answer that could be used; `skipped`: nothing was asked. */
export type SpamOutcome = SpamAction | 'failed' | 'skipped';

export interface SpamFilterOptions {
  /** Of SpamFilter's normal worker, such as `http://127.0.0.1:11333`. */
  readonly url: string;
  /** Our name. */
  readonly hostname: string;
  /** Clients whose mail is not checked. */
  readonly isTrusted: (address: string) => boolean;
  /** @param ms how long the answer took; left out where nothing was asked */
  readonly onChecked?: (outcome: SpamOutcome, ms?: number) => void;
  /** Called when the filter stops answering, and when it answers again. */
  readonly onOutage?: (isOut: boolean, reason: string) => void;
  /** Milliseconds to wait for an answer, and to leave a dead filter alone. */
  readonly times?: { readonly answerMs: number; readonly restMs: number };
}

export interface FilteredMail {
  /** Hostile text, except the id and the client's address. */
  readonly envelope: {
    readonly id: string;
    readonly from: string;
    readonly to: readonly string[];
    readonly arrival: { readonly heloName: string; readonly remoteAddress: string };
  };
  /** The client's name in reverse DNS, verified forward; undefined where none is known. */
  readonly clientName?: string | undefined;
  readonly octets: number;
  /** The message as the client sent it; read at most once. */
  source(): AsyncIterable<Uint8Array>;
}

const TIMES = { answerMs: 10_000, restMs: 10_000 };
/** Failures in a row after which the filter counts as dead. */
const FAILURES = 5;
/** Messages that are judged at once, in all, of one client, and of the clients of one network. */
const AT_ONCE = 32;
const OF_CLIENT = 8;
const OF_NETWORK = 16;
/** Octets of the largest message that is checked: spam is small, and a larger one would not be judged in time. */
const OCTETS_MAX = 8 * 1024 * 1024;
const ANSWER_MAX = 1024 * 1024;

/** For mail whose turn or whose answer did not come in time. */
const DEFERRED: SpamVerdict = { action: 'defer', score: 0, required: 0 };

/** By SpamFilter's names. */
const actions: ReadonlyMap<unknown, SpamAction> = new Map([
  ['no action', 'accept'],
  ['add header', 'junk'],
  ['rewrite subject', 'junk'],
  // Both hide a message from its reader without notice to its sender: in Junk the reader can find it.
  ['quarantine', 'junk'],
  ['discard', 'junk'],
  ['greylist', 'defer'],
  ['soft reject', 'defer'],
  ['reject', 'reject'],
]);

export class SpamFilter {
  readonly #options: SpamFilterOptions;
  readonly #times: typeof TIMES;
  readonly #turns = new Turns(AT_ONCE);
  #pool: Promise<Pool> | undefined;
  #ping: Promise<boolean> | undefined;
  #failures = 0;
  #restsUntil = 0;
  #isOut = false;
  readonly #closed = new AbortController();

  constructor(options: SpamFilterOptions) {
    this.#options = options;
    this.#times = options.times ?? TIMES;
  }

  /** Tells whether the filter is there, at the start; where it is not, until a ping or a message is answered. Never rejects. */
  async look(): Promise<void> {
    const { signal } = this.#closed;
    while (!(await this.#isAnswering())) {
      if (signal.aborted) return;
      this.#tell(true, 'it does not answer /ping');
      await pause(this.#times.restMs, undefined, { signal, ref: false }).catch(() => {});
      if (!this.#isOut) return;
    }
    // What messages have met since says more than a ping.
    if (this.#failures < FAILURES) this.#tell(false);
  }

  /** @returns undefined where there is no verdict: the message is then accepted; never rejects */
  async check(mail: FilteredMail): Promise<SpamVerdict | undefined> {
    const { isTrusted, onChecked } = this.#options;
    const begun = performance.now();
    const { remoteAddress } = mail.envelope.arrival;
    const isSkipped = isTrusted(remoteAddress) || mail.octets > OCTETS_MAX;
    if (isSkipped || begun < this.#restsUntil) {
      onChecked?.('skipped');
      return undefined;
    }
    const client = clientKey(remoteAddress);
    const parties = [
      { name: client, most: OF_CLIENT },
      { name: networkKey(client), most: OF_NETWORK },
    ];
    const line = AbortSignal.timeout(this.#times.answerMs);
    let asked: AbortSignal | undefined;
    const ask = () => {
      asked = AbortSignal.timeout(this.#times.answerMs);
      return this.#ask(mail, asked);
    };
    try {
      const verdict = readVerdict(await this.#turns.run(parties, ask, line));
      onChecked?.(verdict.action, performance.now() - begun);
      this.#tell(false);
      this.#failures = 0;
      return verdict;
    } catch (error) {
      const isLate = (asked ?? line).aborted && (await this.#isAnswering());
      const verdict = isLate ? DEFERRED : undefined;
      onChecked?.(verdict?.action ?? 'failed', performance.now() - begun);
      if (!isLate) this.#fail(error instanceof Error ? error.message : String(error));
      return verdict;
    }
  }

  async close(): Promise<void> {
    this.#closed.abort();
    await (await this.#pool)?.destroy();
  }

  #fail(reason: string): void {
    this.#failures++;
    if (this.#failures < FAILURES) return;
    this.#restsUntil = performance.now() + this.#times.restMs;
    this.#tell(true, reason);
  }

  #tell(isOut: boolean, reason = ''): void {
    if (isOut !== this.#isOut) this.#options.onOutage?.(isOut, reason);
    this.#isOut = isOut;
  }

  async #ask(mail: FilteredMail, signal: AbortSignal): Promise<unknown> {
    try {
      // A request that waits for a connection sees the abort only once it has one.
      return await inTime(signal, this.#post(mail, signal));
    } catch (error) {
      if (!signal.aborted) throw error;
      throw new Error(`no answer within ${this.#times.answerMs / 1000} s`);
    }
  }

  /** Whether the filter answers what needs no work. Never rejects. */
  #isAnswering(): Promise<boolean> {
    this.#ping ??= this.#askPing()
      .catch(() => false)
      .finally(() => {
        this.#ping = undefined;
      });
    return this.#ping;
  }

  async #askPing(): Promise<boolean> {
    const signal = AbortSignal.timeout(this.#times.answerMs);
    const pool = await this.#open();
    const asked = pool.request({ method: 'GET', path: '/ping', signal });
    const { statusCode, body } = await inTime(signal, asked);
    await body.dump();
    return statusCode === 200;
  }

  #open(): Promise<Pool> {
    this.#pool ??= this.#makePool();
    return this.#pool;
  }

  async #makePool(): Promise<Pool> {
    // Loaded at first use, since it would take each start a tenth of a second.
    const undici = await import('undici');
    return new undici.Pool(new URL(this.#options.url).origin, {
      // One more, so that a ping never waits behind messages.
      connections: AT_ONCE + 1,
      connect: { timeout: this.#times.answerMs },
      maxResponseSize: ANSWER_MAX,
      // The signal below limits the whole request.
      headersTimeout: 0,
      bodyTimeout: 0,
    });
  }

  async #post(mail: FilteredMail, signal: AbortSignal): Promise<unknown> {
    const { envelope, clientName, octets, source } = mail;
    const { id, from, to, arrival } = envelope;
    const pool = await this.#open();
    const { statusCode, body } = await pool.request({
      method: 'POST',
      path: '/checkv2',
      headers: {
        'content-length': String(octets),
        'queue-id': inHeader(id),
        'mta-name': inHeader(this.#options.hostname),
        ip: inHeader(arrival.remoteAddress),
        helo: inHeader(arrival.heloName),
        // Left out where there is none: most of SpamFilter's rules would treat `unknown` as a name.
        ...(clientName !== undefined && { hostname: inHeader(clientName) }),
        from: `<${inHeader(from)}>`,
        rcpt: to.map(inHeader),
      },
      // The types allow only streams; the library accepts any iterable.
      body: source() as unknown as Readable,
      signal,
    });
    const text = await body.text();
    if (statusCode !== 200) throw new Error(`it answers with status ${statusCode}`);
    return JSON.parse(text);
  }
}

/** Text from a client, made safe for an HTTP header. */
function inHeader(text: string): string {
  return text.replace(/[^\x21-\x7e]/g, '?').slice(0, 512);
}

/** @throws Error where the answer is not a verdict */
function readVerdict(answer: unknown): SpamVerdict {
  const members: Record<string, unknown> =
    typeof answer === 'object' && answer !== null ? { ...answer } : {};
  const action = actions.get(members.action);
  const { score, required_score: required } = members;
  if (!action || !isScore(score) || !isScore(required)) {
    throw new Error('its answer has no action or no score that is known');
  }
  return { action, score, required };
}

function isScore(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value);
}

/** The field that says what was found, ending in CRLF. */
export function spamStatus({ action, score, required }: SpamVerdict): string {
  const isSpam = action === 'junk' ? 'Yes' : 'No';
  return `X-Spam-Status: ${isSpam}, score=${score.toFixed(2)} required=${required.toFixed(2)}\r\n`;
}
