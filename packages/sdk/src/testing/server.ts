/** The server: requests with their credentials, limits, keys and faults; sockets. */
import type { Platform, Socket } from '../mail/platform.ts';
import { FakeAccount } from './account.ts';
import { VirtualClock } from './clock.ts';
import type { FakeMailbox } from './mailbox.ts';
import type { FakeMailboxes, NewAccount, Surroundings } from './mailboxes.ts';
import { invalid, Refusal } from './refusal.ts';
import { type FakeAnswer, type FakeRequest, routes } from './routes.ts';
import { FakeWebSocket, type SocketServer } from './socket.ts';

/** What goes wrong with a request. */
export type Fault =
  /** It never arrives. */
  | { readonly lose: 'request' }
  /** It is carried out, and the connection breaks before its answer. */
  | { readonly lose: 'answer' }
  /** It is refused with this status before anything is done. */
  | { readonly status: number; readonly code?: Refusal['code']; readonly retryAfter?: number }
  /** It is carried out, and its answer comes so many milliseconds later; never where Infinity. */
  | { readonly delayMs: number };

/** How the fake server answers. */
export interface FakeServerOptions {
  /** One of its own when left out. */
  readonly clock?: VirtualClock;
  /** Requests in a minute; 0 for no limit. */
  readonly rateLimitPerMinute?: number;
  /** Lifetime of tokens; 3,600 when left out. */
  readonly tokenSeconds?: number;
}

const HEARTBEAT_MS = 30_000;

interface Token {
  readonly account: FakeAccount;
  readonly expires: number;
}

/** A server in the memory of the test. */
export class FakeServer {
  readonly clock: VirtualClock;
  /** No request arrives, and no socket opens, while it is false; {@link FakeServer.dropSockets} ends the open ones. */
  online = true;
  /** Asked for each request; a fault of {@link FakeServer.failNext} comes first. */
  fault: ((request: FakeRequest) => Fault | undefined) | undefined;
  /** Requests that arrived, oldest first. */
  readonly requests: FakeRequest[] = [];
  /** In place of the global one. */
  readonly fetch: typeof fetch;
  /** In place of the global one. */
  readonly WebSocket: typeof WebSocket;
  /** For `openMail`: its network is this server, its time moves with `clock`, and it is the only tab. */
  readonly platform: Omit<Platform, 'random' | 'listen'>;
  readonly #options: FakeServerOptions;
  readonly #accounts: FakeAccount[] = [];
  readonly #tokens = new Map<string, Token>();
  readonly #sockets = new Set<FakeWebSocket>();
  readonly #answered = new Map<string, { readonly request: string; readonly answer: FakeAnswer }>();
  #faults: { readonly fault: Fault; readonly path: string | undefined }[] = [];
  #last = 0;
  #window = { minute: 0, used: 0 };

  constructor(options: FakeServerOptions = {}) {
    this.#options = options;
    this.clock = options.clock ?? new VirtualClock();
    this.fetch = (input, init) => this.#fetch(new Request(input, init));
    const server = this.#socketServer();
    this.WebSocket = class extends FakeWebSocket {
      constructor(url: string | URL, protocols?: string | string[]) {
        super(server, url, protocols);
      }
    } as unknown as typeof WebSocket;
    const { now, setTimeout, clearTimeout } = this.clock;
    this.platform = {
      now,
      ticks: now,
      after: (ms, call) => {
        const timer = setTimeout(call, ms);
        return () => clearTimeout(timer);
      },
      fetch: this.fetch,
      connect: (url, protocols) => new this.WebSocket(url, protocols) as Socket,
      openChannel: undefined,
    };
  }

  addAccount(account: NewAccount): FakeAccount {
    const around: Surroundings = {
      clock: this.clock,
      next: () => ++this.#last,
      tell: (account, changed) => this.#tell(account, changed),
      deliver: (address, source) => this.#find(address)?.append('INBOX', source, {}),
    };
    const made = new FakeAccount(around, account);
    this.#accounts.push(made);
    return made;
  }

  /** A token as the product's backend gives it to the app. */
  issueToken(account: FakeAccount): { token: string; expires_in: number } {
    const seconds = this.#options.tokenSeconds ?? 3600;
    const token = `fake.${++this.#last}`;
    this.#tokens.set(token, { account, expires: this.clock.now() + seconds * 1000 });
    return { token, expires_in: seconds };
  }

  /** As after a new password: all tokens of an account are refused, and its sockets closed. */
  revokeTokens(account: FakeAccount): void {
    for (const [token, one] of this.#tokens)
      if (one.account === account) this.#tokens.delete(token);
    this.dropSockets(4401, account);
  }

  suspend(account: FakeAccount): void {
    account.suspended = true;
    this.dropSockets(4403, account);
  }

  /** The next request, or the next of this path, meets the fault. */
  failNext(fault: Fault, path?: string): void {
    this.#faults.push({ fault, path });
  }

  /** @param code 1006 when left out: the connections break */
  dropSockets(code = 1006, of?: FakeAccount): void {
    for (const socket of [...this.#sockets]) {
      if (of === undefined || socket.account === of) socket.end(code);
    }
  }

  async #fetch(request: Request): Promise<Response> {
    request.signal.throwIfAborted();
    const read = await readRequest(request);
    const fault = this.#faultOf(read);
    if (!this.online || (fault && 'lose' in fault && fault.lose === 'request')) throw lost();
    this.requests.push(read);
    const answer = this.#answer(read, fault);
    if (fault && 'lose' in fault) throw lost();
    if (fault && 'delayMs' in fault) await this.#wait(fault.delayMs, request.signal);
    request.signal.throwIfAborted();
    return answer;
  }

  #faultOf(request: FakeRequest): Fault | undefined {
    const found = this.#faults.find(({ path }) => path === undefined || path === request.path);
    if (!found) return this.fault?.(request);
    this.#faults = this.#faults.filter((one) => one !== found);
    return found.fault;
  }

  #wait(ms: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (ms !== Number.POSITIVE_INFINITY) this.clock.setTimeout(resolve, ms);
      signal.addEventListener('abort', () => reject(signal.reason), { once: true });
    });
  }

  #answer(request: FakeRequest, fault: Fault | undefined): Response {
    const id = `fake-${++this.#last}`;
    const headers = new Headers({ 'x-request-id': id, 'x-postroom-version': '0.0.0-fake' });
    try {
      if (fault && 'status' in fault) {
        const {
          status,
          code = status === 429 ? 'rate_limited' : 'unavailable',
          retryAfter,
        } = fault;
        throw new Refusal(code, 'a fault of the test', {
          status,
          ...(retryAfter !== undefined && { retryAfter }),
        });
      }
      this.#charge(headers);
      const answer = this.#route(request);
      if (answer instanceof Uint8Array) return new Response(answer.slice(), { headers });
      return Response.json(answer.json, { status: answer.status, headers });
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      const { status, retryAfter } = error;
      if (retryAfter !== undefined) headers.set('retry-after', String(retryAfter));
      return Response.json(error.toProblem(id), { status, headers });
    }
  }

  #charge(headers: Headers): void {
    const { rateLimitPerMinute: most = 0 } = this.#options;
    if (most === 0) return;
    const minute = Math.floor(this.clock.now() / 60_000);
    const used = this.#window.minute === minute ? this.#window.used + 1 : 1;
    this.#window = { minute, used };
    const reset = Math.ceil(((minute + 1) * 60_000 - this.clock.now()) / 1000);
    headers.set('x-ratelimit-limit', String(most));
    headers.set('x-ratelimit-remaining', String(Math.max(0, most - used)));
    headers.set('x-ratelimit-reset', String(reset));
    if (used <= most) return;
    const detail = `this client may make ${most} requests in a minute: try again in ${reset} s`;
    throw new Refusal('rate_limited', detail, { retryAfter: reset });
  }

  #route(request: FakeRequest): FakeAnswer {
    const name = `${request.method} ${request.path}`;
    if (name === 'POST /mail/token') return { status: 200, json: this.#login(request) };
    const route = routes[name];
    if (!route) throw new Refusal('route_not_found', 'there is nothing at this path');
    const account = this.#admit(
      request.headers.get('authorization')?.replace(/^Bearer /i, '') ?? '',
    );
    return this.#once(account, request, () => route(account, request));
  }

  /** A request with a key is carried out once, and gets the same answer again. */
  #once(account: FakeAccount, request: FakeRequest, carryOut: () => FakeAnswer): FakeAnswer {
    const key = request.headers.get('idempotency-key');
    if (key === null || request.method !== 'POST') return carryOut();
    const { path, query, body } = request;
    const written = JSON.stringify([
      path,
      String(query),
      body instanceof Uint8Array ? [...body] : body,
    ]);
    const name = `${account.address} ${key}`;
    const known = this.#answered.get(name);
    if (known && known.request !== written) {
      throw new Refusal('idempotency_key_reused', 'this Idempotency-Key came with another request');
    }
    const answer = known?.answer ?? carryOut();
    this.#answered.set(name, { request: written, answer });
    return answer;
  }

  #login({ body }: FakeRequest) {
    const { address, password } = (body ?? {}) as { address?: string; password?: string };
    const account = this.#find(address ?? '');
    if (!account || account.password !== password)
      throw new Refusal('unauthorized', 'address or password is wrong');
    return this.issueToken(this.#active(account));
  }

  #admit(token: string): FakeAccount {
    const found = this.#tokens.get(token);
    if (!found || found.expires <= this.clock.now())
      throw new Refusal('unauthorized', 'the token is not valid');
    return this.#active(found.account);
  }

  #active(account: FakeAccount): FakeAccount {
    if (!account.suspended) return account;
    throw new Refusal('account_inactive', 'the account is not active');
  }

  #find(address: string): FakeAccount | undefined {
    return this.#accounts.find((one) => one.address.toLowerCase() === address.toLowerCase());
  }

  #socketServer(): SocketServer {
    return {
      admit: (token) => {
        const found = this.online ? this.#tokens.get(token) : undefined;
        return found && found.expires > this.clock.now() && !found.account.suspended
          ? found.account
          : undefined;
      },
      greet: (account) => ({
        type: 'hello',
        user: account.address,
        connectionId: `fake-${++this.#last}`,
        serverTime: new Date(this.clock.now()).toISOString(),
        heartbeatSeconds: HEARTBEAT_MS / 1000,
        mailboxes: account.tips,
      }),
      opened: (socket) => {
        this.#sockets.add(socket);
        this.#beat(socket);
      },
      ended: (socket) => this.#sockets.delete(socket),
    };
  }

  #beat(socket: FakeWebSocket): void {
    this.clock.setTimeout(() => {
      if (!this.#sockets.has(socket)) return;
      socket.tell({ type: 'heartbeat' });
      this.#beat(socket);
    }, HEARTBEAT_MS);
  }

  #tell(account: FakeMailboxes, changed: FakeMailbox | 'list'): void {
    const message =
      changed === 'list'
        ? { type: 'mailboxes_changed' }
        : { type: 'mailbox_changed', ...changed.state, eventType: 'MailboxesChanged' };
    for (const socket of this.#sockets) if (socket.account === account) socket.tell(message);
  }
}

const lost = () => new TypeError('fetch failed', { cause: new Error('the connection broke') });

async function readRequest(request: Request): Promise<FakeRequest> {
  const { pathname, searchParams } = new URL(request.url);
  const { method, headers } = request;
  const isJson = headers.get('content-type')?.includes('json');
  const bytes = new Uint8Array(await request.arrayBuffer());
  const body = isJson ? readJson(bytes) : bytes.length > 0 ? bytes : undefined;
  return { method, path: pathname, query: searchParams, headers, body };
}

function readJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    throw invalid('body', 'must be JSON');
  }
}
