/** Nodes as processes behind HAProxy, for what happens to them on bad days. */
import assert from 'node:assert/strict';
import { mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import { atEnd } from '../support/at-end.ts';
import { freePort } from '../support/free-port.ts';
import { listening, type Process, ROOT, start } from '../support/process.ts';
import { clientOf, commonVariables, type TestClient } from '../support/service.ts';
import { type NodePorts, startBalancer } from './balancer.ts';
import { Readiness } from './readiness.ts';
import { makeBucket } from './s3.ts';

const DRAIN_SECONDS = 1;
/** What the guide "Several nodes" asks of whoever stops a node to wait, in milliseconds. */
const ENDS_WITHIN_MS = (DRAIN_SECONDS + 15) * 1000;
/** HAProxy comes from 127.0.0.1 with the PROXY header; who sends to a node itself comes from here, without it. */
const PAST_BALANCER = '127.0.0.2';

interface RunningNode {
  readonly environment: Record<string, string>;
  process: Process;
}

export class RunningNodes {
  /** Through the balancer: each request and each connection goes to the next node. */
  readonly balanced: TestClient;
  /** Each node by itself. */
  readonly each: readonly [TestClient, TestClient];
  readonly readiness: Readiness;
  readonly #running: readonly RunningNode[];
  readonly #untilAllUp: () => Promise<void>;

  private constructor(
    balanced: TestClient,
    each: readonly [TestClient, TestClient],
    running: readonly RunningNode[],
    untilAllUp: () => Promise<void>,
  ) {
    this.balanced = balanced;
    this.each = each;
    this.readiness = new Readiness(each.map(({ url }) => url));
    this.#running = running;
    this.#untilAllUp = untilAllUp;
  }

  /**
   * Starts two nodes.
   *
   * @param environment with the database and the Redis that they share; a bucket is made where it names none
   * @param onEnd what is run when all is over, also where that is before their end
   */
  static async start(
    environment: Record<string, string>,
    onEnd: (cleanup: () => Promise<void>) => void = atEnd,
  ): Promise<RunningNodes> {
    const bucket = environment.S3_URL ?? (await makeBucket());
    const ports = [await freePorts(), await freePorts()] as const;
    const running = await Promise.all(
      ports.map(async ({ http, smtp }): Promise<RunningNode> => {
        const own = {
          ...(await commonVariables(await mkdtemp(join(ROOT, 'node-')))),
          PORT: String(http),
          SMTP_PORT: String(smtp),
          DRAIN_SECONDS: String(DRAIN_SECONDS),
          TRUST_PROXY: '127.0.0.1',
          SMTP_PROXY_NETWORKS: '127.0.0.1',
          S3_URL: bucket,
          ...environment,
        };
        return { environment: own, process: start(own) };
      }),
    );
    onEnd(async () => {
      for (const { process } of running) process.child.kill('SIGKILL');
    });
    await Promise.all(running.map(({ process }) => listening(process)));
    const balancer = await startBalancer(ports);
    onEnd(() => balancer.stop());
    const urlOf = (port: number) => `http://127.0.0.1:${port}`;
    const at = ({ http, smtp }: NodePorts) =>
      clientOf({ url: urlOf(http), smtpPort: smtp, localAddress: PAST_BALANCER });
    const each = [at(ports[0]), at(ports[1])] as const;
    const balanced = clientOf({ url: urlOf(balancer.http), smtpPort: balancer.smtp });
    const nodes = new RunningNodes(balanced, each, running, () => balancer.untilAllUp());
    onEnd(async () => nodes.readiness.stop());
    return nodes;
  }

  /** The process id of a node. @param at its place in {@link each}; the same below */
  pidOf(at: number): number | undefined {
    return this.#at(at).process.child.pid;
  }

  /** What a node has written so far. */
  output(at: number): string {
    return this.#at(at).process.output();
  }

  /** Ends a node by SIGKILL, in the middle of everything. */
  async kill(at: number): Promise<void> {
    const { process } = this.#at(at);
    process.child.kill('SIGKILL');
    await process.ended();
  }

  /** Freezes a node, as a paused machine is: its sockets stay open, and nothing answers. */
  freeze(at: number): void {
    this.#at(at).process.child.kill('SIGSTOP');
  }

  /** Lets a frozen node go on, and waits until the balancer has found that it is ready. */
  async thaw(at: number): Promise<void> {
    this.#at(at).process.child.kill('SIGCONT');
    await this.#untilAllUp();
  }

  /** Starts a node again that was killed, and waits until the balancer has found that it is ready. */
  async restart(at: number): Promise<void> {
    const node = this.#at(at);
    node.process = start(node.environment);
    await listening(node.process);
    await this.#untilAllUp();
  }

  #at(at: number): RunningNode {
    return this.#running[at] ?? assert.fail(`there is no node ${at}`);
  }

  /** Waits until they are ready and the balancer has found that; then ends them. */
  async end(): Promise<void> {
    await this.readiness.untilReady();
    await this.#untilAllUp();
    await this.terminate();
  }

  /** Ends each by SIGTERM, which none may survive. @returns what each has written */
  async terminate(): Promise<string[]> {
    this.readiness.stop();
    const from = performance.now();
    for (const { process } of this.#running) process.child.kill('SIGTERM');
    const written: string[] = [];
    for (const { process } of this.#running) {
      const late = setTimeout(() => process.child.kill('SIGKILL'), ENDS_WITHIN_MS);
      const { code, output } = await process.ended();
      clearTimeout(late);
      const took = Math.round(performance.now() - from);
      assert.equal(code, 0, `it ended with ${code} ${took} ms after SIGTERM:\n${output}`);
      written.push(output);
    }
    return written;
  }
}

async function freePorts(): Promise<NodePorts> {
  return { http: await freePort(), smtp: await freePort() };
}
