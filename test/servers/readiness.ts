/** What `/readyz` of each node says over time: it is asked all the time, also while everything else fails. */
import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import { until } from './mail-load.ts';

/** Between an answer and the next question, in milliseconds. */
const PAUSE_MS = 100;
/**
 * Of a node that gets requests. Where a bucket is not what is broken, a look at it may take more than a second all the same:
 * other suites use its server, and the machine may be busy.
 */
export const READY = /^(?:ready|degraded: bodies)$/;

/** What a node said to a question: when that was asked and answered, in milliseconds of this process. */
interface Said {
  readonly asked: number;
  readonly answered: number;
  /** `ready`, `degraded: <parts>`, or what it said with 503. */
  readonly what: string;
}

export class Readiness {
  readonly #nodes: ReadonlyMap<string, Said[]>;
  #isOver = false;

  /** @param urls of the nodes */
  constructor(urls: readonly string[]) {
    this.#nodes = new Map(urls.map((url) => [url, []]));
    for (const [url, said] of this.#nodes) void this.#ask(url, said);
  }

  /** Waits until every node says that it is ready, to a question that is asked from now on. */
  untilReady(): Promise<void> {
    return this.until(/^ready$/);
  }

  /** Waits until every node says so to a question that is asked from now on. */
  async until(what: RegExp): Promise<void> {
    const from = performance.now();
    const isSaid = () => this.#since(from).every((said) => said.some((one) => what.test(one.what)));
    try {
      await until(`/readyz of every node says ${what}`, isSaid);
    } catch (error) {
      const last = this.#since(from).map((said) => said.slice(-3));
      throw new Error(`the last answers were ${JSON.stringify(last)}`, { cause: error });
    }
  }

  /**
   * Does something, and looks at all that was asked and answered meanwhile: every node was asked, and said so each
   * time.
   */
  async saysOnly(what: RegExp, meanwhile: () => Promise<unknown>): Promise<void> {
    const from = performance.now();
    await meanwhile();
    await until('/readyz of every node answers', () =>
      this.#since(from).every((said) => said.length > 0),
    );
    const others = this.#since(from)
      .flat()
      .filter((said) => !what.test(said.what));
    assert.deepEqual(others, [], `/readyz said something else than ${what} from ${from} on`);
  }

  /** Asks no more. */
  stop(): void {
    this.#isOver = true;
  }

  #since(from: number): Said[][] {
    return [...this.#nodes.values()].map((said) => said.filter(({ asked }) => asked >= from));
  }

  async #ask(url: string, said: Said[]): Promise<void> {
    while (!this.#isOver) {
      const asked = performance.now();
      const what = await answerOf(url);
      said.push({ asked, answered: performance.now(), what });
      await pause(PAUSE_MS, undefined, { ref: false });
    }
  }
}

async function answerOf(url: string): Promise<string> {
  try {
    const answer = await fetch(`${url}/readyz`);
    const { status, detail } = (await answer.json()) as { status?: string; detail?: string };
    if (!answer.ok) return `${answer.status} ${detail}`;
    return detail === undefined ? `${status}` : `${status}: ${detail}`;
  } catch (error) {
    // The message of `fetch` is "fetch failed" for everything.
    const reason = error instanceof Error ? (error.cause ?? error) : error;
    return `no answer: ${reason}`;
  }
}
