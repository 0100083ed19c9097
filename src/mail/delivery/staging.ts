/**
 * Staging in a thread: where several messages come at once, the small ones are checked and parsed beside the event loop.
 *
 * A message that is alone stays on the event loop, since the way to the thread would only make it later, and a large one,
 * since it is not held in memory. The thread starts when it is needed for the first time; until it is ready, messages stay
 * on the event loop, and so do those that come while it has {@link MESSAGES_MAX}. Where it ends, or does not answer, the
 * messages in it are deferred, and a new one starts.
 */
import { Buffer } from 'node:buffer';
import { Worker } from 'node:worker_threads';
import type { StagedMessage } from '../../mailboxes/mailstore/mailstore.ts';
import { type ErrorCode, Refusal } from '../../platform/errors/errors.ts';
import { AskedThread, ThreadEnded } from '../../platform/threads/threads.ts';
import { Outage } from '../../platform/time/time.ts';
import type { ParsedMessage } from '../../protocols/message/message.ts';
import type { SendingClient } from './sender-checks/check-sender.ts';
import type { CheckHooks, CheckSettings } from './sender-checks/open-checks.ts';
import type { Judgement } from './sender-checks/verdicts.ts';

/** A message that was checked and parsed. */
export interface CheckedMail {
  /** With the lines in front, without the field that reports the results. */
  readonly message: StagedMessage;
  readonly judgement: Judgement;
}

/** A question to DNS, as metrics count it. */
export type Asked = Parameters<CheckHooks['onAsked']>;

export interface MailToCheck {
  readonly client: SendingClient;
  /** Lines to put in front, ending in CRLF. */
  readonly head: Uint8Array;
  /** The message, in memory of its own, which the thread gets. */
  readonly bytes: Uint8Array<ArrayBuffer>;
}

export interface StagingAnswer {
  readonly staged?: {
    readonly parsed: ParsedMessage;
    readonly content: Uint8Array<ArrayBuffer>;
    readonly judgement: Judgement;
    readonly terms: string | undefined;
  };
  readonly refused?: { readonly code: ErrorCode; readonly detail: string };
  /** Questions to DNS since the last answer. */
  readonly asked: readonly Asked[];
}

/** What the thread tells: that it is ready; that DNS stopped answering, or answers again. */
export type Told = { readonly isReady: true } | { readonly isOut: boolean };

type Thread = AskedThread<MailToCheck, Told>;

/** What the thread is told when it starts. */
export interface StagingSettings extends CheckSettings {
  /** Whether what is indexed of a message is queued with it: then it is read here. */
  readonly readsTerms: boolean;
}

export interface StagingThreadOptions extends CheckHooks {
  readonly settings: StagingSettings;
  readonly log: { warn(fields: object, message: string): void };
}

/** Milliseconds for an answer. The checks themselves end after 5 s. */
const STUCK_MS = 30_000;

/** Milliseconds before it is started again where it could not start. */
const REST_MS = 60_000;

/**
 * Messages in it at a time. Each waits for DNS there, some seconds where its sender likes, and may take 1 MB of the heap,
 * with a thousand parts: without a limit a few clients would fill the heap, which ends the thread for all.
 */
const MESSAGES_MAX = 64;

/** Megabytes of its heap, several times what so many messages take, with answers of DNS and keys. */
const LIMITS = { maxOldGenerationSizeMb: 192, maxYoungGenerationSizeMb: 16 };

export class StagingThread {
  readonly #options: StagingThreadOptions;
  #thread: Thread | undefined;
  #isReady = false;
  readonly #failedStarts: Outage;
  #restsUntil = 0;

  constructor(options: StagingThreadOptions) {
    this.#options = options;
    const line = 'the thread that checks mail could not start: the event loop checks all of it';
    this.#failedStarts = new Outage((err) => options.log.warn({ err }, line));
  }

  /** Whether it can be given a message now. It is started for the next ones. */
  isReady(): boolean {
    if (performance.now() >= this.#restsUntil) this.#thread ??= this.#start();
    return this.#isReady && (this.#thread?.waiting ?? 0) < MESSAGES_MAX;
  }

  /**
   * Checks and parses a message.
   *
   * @throws Refusal of the checks; unavailable, where the thread ended or did not answer
   */
  async check(mail: MailToCheck): Promise<CheckedMail> {
    this.#thread ??= this.#start();
    const thread = this.#thread;
    // A copy: all of the pool that it may lie in would be copied with it.
    const head = new Uint8Array(mail.head);
    const asking = thread.ask<StagingAnswer>({ ...mail, head }, [mail.bytes.buffer]);
    const { staged, refused, asked } = await asking.catch((error: unknown) => {
      if (!thread.fault) throw error;
      throw new Refusal('unavailable', 'the message could not be checked, try again');
    });
    for (const question of asked) this.#options.onAsked(...question);
    if (refused) throw new Refusal(refused.code, refused.detail);
    if (!staged) throw new Error('a message was neither staged nor refused');
    const { parsed, content, judgement, terms } = staged;
    const body = { size: parsed.size, content: Buffer.from(content.buffer) };
    return { message: { parsed, body, terms }, judgement };
  }

  close(): void {
    void this.#thread?.end();
  }

  #start(): Thread {
    const { settings } = this.#options;
    const url = new URL('./staging-thread.ts', import.meta.url);
    const worker = new Worker(url, { workerData: settings, resourceLimits: LIMITS });
    const thread: Thread = new AskedThread(worker, {
      answerMs: STUCK_MS,
      onTold: (told) => this.#hear(told),
      onEnd: (err) => this.#end(thread.waiting, err),
    });
    return thread;
  }

  #hear(told: Told): void {
    if ('isOut' in told) {
      this.#options.onOutage(told.isOut);
      return;
    }
    this.#isReady = true;
    this.#failedStarts.worked();
  }

  /** @param messages in the thread, which are deferred */
  #end(messages: number, err: Error): void {
    if (!this.#isReady && !(err instanceof ThreadEnded)) {
      this.#restsUntil = performance.now() + REST_MS;
      this.#failedStarts.failed(err);
    }
    this.#thread = undefined;
    this.#isReady = false;
    // What it knew of DNS ends with it.
    this.#options.onOutage(false);
    if (messages > 0) {
      this.#options.log.warn(
        { err, messages },
        'the thread that checks mail ended: the messages in it are deferred, and a new one starts',
      );
    }
  }
}
