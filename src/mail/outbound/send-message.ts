/**
 * Sends one message to the far end: to the hosts that accept the mail of the recipients' domain, or to the smarthost.
 * It makes one attempt and reports the outcomes; the queue makes the next attempt.
 *
 * Crashes: an attempt ends as soon as a host may have accepted the message for one of its recipients. The others are
 * tried again after that is written, so that a kill repeats no more than one transaction.
 */
import pLimit, { type LimitFunction } from 'p-limit';
import { inTime, runInTurn } from '../../platform/net/net.ts';
import type { DnsLookup } from '../../protocols/dns/dns.ts';
import { formatAddress, parseAddress } from '../../protocols/message/message.ts';
import type {
  ConnectionTimeouts,
  Endpoint,
  Login,
} from '../../protocols/smtp-client/smtp-client.ts';
import { findAddresses, findExchangers } from './find-exchangers.ts';
import { failure, type SendFailure, type SendOutcome } from './outcome.ts';
import { type PatienceTimes, Wait } from './patience.ts';
import {
  type OutgoingMessage,
  type RecipientResult,
  runSession,
  type SessionOptions,
  type SessionResult,
} from './smtp-session.ts';

export interface Smarthost extends Endpoint {
  /** TLS from the first byte (RFC 8314); otherwise STARTTLS where offered, with a login always. */
  readonly implicitTls: boolean;
  readonly login: Login | undefined;
}

/** Our own listener, for mail to domains that are hosted here. */
export interface OwnListener extends Endpoint {
  hosts(domain: string): Promise<boolean>;
}

/** Milliseconds (RFC 5321 section 4.5.3.2). */
export interface SendTimeouts extends ConnectionTimeouts {
  readonly patience: PatienceTimes;
  /** For one message and all hosts together; limits a far end that keeps sending a byte at a time. */
  readonly whole: number;
}

export interface MessageSenderOptions {
  /** Our own name: sent with EHLO, and never connected to as an exchanger. */
  readonly hostname: string;
  readonly dns: DnsLookup;
  /** Checks every address of an exchanger just before the connection. */
  readonly isAllowedAddress: (address: string) => boolean;
  /** Port of exchangers; 25. */
  readonly mxPort?: number;
  /** Gets all mail; then DNS is not asked and addresses are not checked. */
  readonly smarthost?: Smarthost | undefined;
  /** Told after each session with the smarthost: why it was not opened, or undefined where it was. */
  readonly onSmarthost?: (fault: string | undefined) => void;
  readonly ownListener?: OwnListener | undefined;
  /**
   * Sessions at a time; 1,000 by default. The others wait in the order in which they came, also behind slow ones. A
   * caller that needs fairness must start fewer.
   */
  readonly maxSessions?: number;
  readonly timeouts?: Partial<SendTimeouts>;
}

const TIMEOUTS: SendTimeouts = {
  connect: 30_000,
  reply: 300_000,
  message: 600_000,
  patience: { handover: 30_000, answer: 120_000 },
  whole: 1_800_000,
};
const MX_PORT = 25;
const SESSIONS = 1_000;
/** Sessions to our own listener, which limits them by client (SMTP_MAX_PER_IP). */
const OWN_SESSIONS = 32;
/** The most connections for one message (RFC 5321 section 5.1 asks for at least two). */
const TRIES_MAX = 10;
/** Hosts that may defer a transaction before the attempt ends; enough to notice greylisting. */
const REFUSALS_MAX = 2;
/** Hosts that may take too long before the attempt ends, while others wait for a slot. */
const SLOW_MAX = 2;

/** Sends messages for the whole service. */
export class MessageSender {
  readonly #options: MessageSenderOptions;
  readonly #timeouts: SendTimeouts;
  readonly #slots: LimitFunction;
  readonly #ownSlots = pLimit(OWN_SESSIONS);

  constructor(options: MessageSenderOptions) {
    this.#options = options;
    this.#timeouts = { ...TIMEOUTS, ...options.timeouts };
    this.#slots = pLimit(options.maxSessions ?? SESSIONS);
  }

  /**
   * Makes one attempt for one recipient; see {@link sendToAll}.
   *
   * @throws only errors of the source
   */
  async sendMessage(
    message: Omit<OutgoingMessage, 'to'> & { readonly to: string },
    stop?: AbortSignal,
  ): Promise<SendOutcome> {
    const [outcome] = await this.sendToAll({ ...message, to: [message.to] }, stop);
    if (!outcome) throw new Error('the recipient has no outcome');
    return outcome;
  }

  /**
   * Makes one attempt, with one transfer for all recipients. It always ends after `timeouts.whole`, including the wait
   * for a free session.
   *
   * @param signal ends the attempt, which is `temporary` then
   * @returns the outcome for each recipient, in the order of the message
   * @throws only errors of the source
   */
  async sendToAll(message: OutgoingMessage, stop?: AbortSignal): Promise<SendOutcome[]> {
    const parsed = message.to.map(parseAddress);
    // With the domain in ASCII, an address with an ASCII local part needs no SMTPUTF8.
    const paths = parsed.map((one) => one && formatAddress(one.local, one.domain));
    const to = [...new Set(paths.filter((path) => path !== undefined))];
    const domain = parsed.find((one) => one !== undefined)?.domain;
    const sent = domain === undefined ? [] : await this.#inTurn({ ...message, to }, domain, stop);
    const outcomes = new Map(to.map((path, at) => [path, sent[at]]));
    return message.to.map((text, at) => {
      const outcome = outcomes.get(paths[at] ?? '');
      return outcome ?? failure('permanent', '5.1.3', `${text} is not an address`);
    });
  }

  async #inTurn(
    message: OutgoingMessage,
    domain: string,
    stop: AbortSignal | undefined,
  ): Promise<readonly SendOutcome[]> {
    const deadline = AbortSignal.timeout(this.#timeouts.whole);
    const signal = stop ? AbortSignal.any([stop, deadline]) : deadline;
    try {
      return await runInTurn(this.#slots, signal, () => this.#route(message, domain, signal));
    } catch (error) {
      if (!signal.aborted || error !== signal.reason) throw error;
      const ended = failure(
        'temporary',
        '4.4.2',
        'the attempt was ended before any host was reached',
      );
      return message.to.map(() => ended);
    }
  }

  async #route(
    message: OutgoingMessage,
    domain: string,
    signal: AbortSignal,
  ): Promise<readonly SendOutcome[]> {
    const { ownListener, smarthost } = this.#options;
    if (ownListener && (await inTime(signal, ownListener.hosts(domain)))) {
      // By SMTP like any other mail, so that loops between domains hosted here are found as well.
      const options = this.#session(this.#options.hostname, 'none', signal);
      const { results } = await runInTurn(this.#ownSlots, signal, () =>
        runSession(ownListener, message, options),
      );
      return results.map(({ outcome }) => outcome);
    }
    return smarthost
      ? this.#toSmarthost(message, smarthost, signal)
      : this.#toExchangers(message, domain, signal);
  }

  async #toSmarthost(
    message: OutgoingMessage,
    smarthost: Smarthost,
    signal: AbortSignal,
  ): Promise<readonly SendOutcome[]> {
    const { implicitTls, login, host } = smarthost;
    // A password is never sent over a connection that others can read or intercept (RFC 4954 section 4).
    const startTls = login ? 'required' : 'offered';
    const options = { ...this.#session(host, implicitTls ? 'implicit' : startTls, signal), login };
    const { results } = await runSession(smarthost, message, options);
    if (!signal.aborted) this.#options.onSmarthost?.(faultOfSession(results));
    // Only the operator can fix a smarthost that refuses us; the mail waits until the queue gives up.
    return results.map(({ outcome, about }) =>
      outcome.result !== 'delivered' && about === 'connection' ? byRelay(outcome) : outcome,
    );
  }

  async #toExchangers(
    message: OutgoingMessage,
    domain: string,
    signal: AbortSignal,
  ): Promise<readonly SendOutcome[]> {
    const { dns, hostname } = this.#options;
    const self = hostname.toLowerCase();
    const isSelf = (host: string) => host.toLowerCase() === self;
    const found = await inTime(signal, findExchangers(domain, dns, isSelf));
    if ('result' in found) return message.to.map(() => found);
    const progress = new AttemptProgress(message.to, domain);
    let tries = 0;
    let refusals = 0;
    let slow = 0;
    const isOver = () =>
      signal.aborted ||
      tries === TRIES_MAX ||
      (slow >= SLOW_MAX && message.slot?.isWanted === true);
    for (const host of found.hosts) {
      if (isOver()) break;
      const { targets, failures } = await this.#targets(host, signal);
      for (const one of failures) progress.note(one);
      // Its name servers are slow.
      if (failures.some(({ result }) => result === 'temporary')) slow++;
      for (const target of targets) {
        if (isOver()) break;
        tries++;
        message.slot?.enter(target.host);
        const wait = new Wait(message.slot, this.#timeouts.patience, signal);
        const rest = { ...message, to: progress.open };
        const { results } = await this.#tryExchanger(target, host, rest, { signal, wait }).finally(
          () => wait.end(),
        );
        if (wait.isLong) slow++;
        if (!progress.add(results)) return progress.outcomes();
        const isRefused = results.some(({ tryNext, about }) => tryNext && about === 'message');
        if (isRefused && ++refusals === REFUSALS_MAX) return progress.outcomes();
      }
    }
    return progress.outcomes();
  }

  /** The addresses of a host that may be connected to, and the failures of the others. */
  async #targets(
    host: string,
    signal: AbortSignal,
  ): Promise<{ readonly targets: Endpoint[]; readonly failures: SendFailure[] }> {
    const { dns, isAllowedAddress, mxPort: port = MX_PORT } = this.#options;
    const found = await inTime(signal, findAddresses(host, dns));
    if ('result' in found) return { targets: [], failures: [found] };
    const failures: SendFailure[] = [];
    const targets = found.addresses.flatMap((address) => {
      // The checked address is the one that is connected to: the name is not looked up again.
      if (isAllowedAddress(address)) return [{ host: address, port }];
      const text = `the mail host ${host} is at ${address}, which is not a public address`;
      failures.push(failure('permanent', '5.4.4', text, host));
      return [];
    });
    return { targets, failures };
  }

  async #tryExchanger(
    target: Endpoint,
    host: string,
    message: OutgoingMessage,
    { signal, wait }: { readonly signal: AbortSignal; readonly wait: Wait },
  ): Promise<SessionResult> {
    const options = { ...this.#session(host, 'opportunistic', signal), wait };
    const first = await runSession(target, message, options);
    // RFC 7435 section 3: if encryption fails, the mail is sent without it.
    if (!first.tlsFailed || wait.signal.aborted) return first;
    return runSession(target, message, { ...options, tls: 'none' });
  }

  #session(host: string, tls: SessionOptions['tls'], signal: AbortSignal): SessionOptions {
    return { host, hostname: this.#options.hostname, tls, timeouts: this.#timeouts, signal };
  }
}

/** Why a session was not opened: then no recipient has an answer to the message. */
function faultOfSession(results: readonly RecipientResult[]): string | undefined {
  const [first] = results;
  if (first?.about !== 'connection' || first.outcome.result === 'delivered') return undefined;
  const { status, text, answers } = first.outcome.error;
  if (answers) return undefined;
  return status === undefined ? text : `${status} ${text}`;
}

/** Among the receivers of the queue it has to be seen that none of them said it. */
function byRelay({ error }: SendFailure): SendFailure {
  return { result: 'temporary', error: { ...error, text: `${error.text} (our mail relay)` } };
}

/** How far an attempt has got with each recipient of a message. */
class AttemptProgress {
  readonly #domain: string;
  readonly #ended = new Map<string, SendOutcome>();
  /** By recipient. */
  readonly #failures: ReadonlyMap<string, SendFailure[]>;

  constructor(recipients: readonly string[], domain: string) {
    this.#domain = domain;
    this.#failures = new Map(recipients.map((to) => [to, []]));
  }

  /** The recipients that another host may accept. */
  get open(): string[] {
    return [...this.#failures.keys()].filter((to) => !this.#ended.has(to));
  }

  /** Notes a failure for all open recipients. */
  note(failed: SendFailure): void {
    for (const to of this.open) this.#failures.get(to)?.push(failed);
  }

  /**
   * Adds the results of a host for the open recipients.
   *
   * @returns whether another host is to be tried
   */
  add(results: readonly RecipientResult[]): boolean {
    for (const [at, to] of this.open.entries()) {
      const result = results[at];
      if (result?.tryNext && result.outcome.result !== 'delivered') {
        this.#failures.get(to)?.push(result.outcome);
      } else if (result) {
        this.#ended.set(to, result.outcome);
      }
    }
    const mayBeAccepted = results.some((one) => !one.tryNext && one.outcome.result !== 'permanent');
    return !mayBeAccepted && this.open.length > 0;
  }

  /** The outcome for each recipient. */
  outcomes(): SendOutcome[] {
    return [...this.#failures].map(([to, failures]) => {
      const ended = this.#ended.get(to);
      if (ended) return ended;
      const last = failures.at(-1);
      // By the last host alone: it never puts all of them off, so that each attempt brings a result for one at least.
      if (last?.isPutOff) return last;
      return summarize(
        failures.filter(({ isPutOff }) => !isPutOff),
        this.#domain,
      );
    });
  }
}

/**
 * The outcome of all hosts together: as long as one may accept the message later, the failure is temporary. A reply
 * is preferred to a failed connection, since it says more.
 */
function summarize(failures: readonly SendFailure[], domain: string): SendOutcome {
  const temporary = failures.filter(({ result }) => result === 'temporary');
  const telling = temporary.length > 0 ? temporary : failures;
  const chosen = telling.find(({ error }) => error.status !== undefined) ?? telling[0];
  return chosen ?? failure('temporary', '4.4.1', `no mail host of ${domain} could be tried`);
}
