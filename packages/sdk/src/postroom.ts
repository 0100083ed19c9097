/** The client of a product's backend: it holds the API key, and provisions domains and accounts for its users. */
import { clientHeaders } from './client-name.ts';
import { OperationClient } from './operations.ts';
import { readBaseUrl, Transport } from './transport.ts';
import { UserScope } from './user.ts';

/** How a client is made. */
export interface PostroomOptions {
  /** Address of the server: `https://mail.example`. The environment's POSTROOM_URL when left out. */
  readonly baseUrl?: string | undefined;
  /** The environment's POSTROOM_API_KEY when left out. */
  readonly apiKey?: string | undefined;
  /** Name and version of your program, for the server's log: `crm/2.1`. */
  readonly app?: string | undefined;
  /** An API key in a browser is everybody's. */
  readonly dangerouslyAllowBrowser?: boolean | undefined;
  /** In place of the global one. */
  readonly fetch?: typeof fetch | undefined;
  /** For each attempt, where a call says nothing else; 30,000 when left out. */
  readonly timeoutMs?: number | undefined;
  /** Attempts after the first, where a call says nothing else; 2 when left out. */
  readonly maxRetries?: number | undefined;
}

/** The client of a backend: it holds the API key. Begin with `user`. */
export class Postroom extends OperationClient {
  /** @throws TypeError without an address or a key, and in a browser */
  constructor(options: PostroomOptions = {}) {
    const baseUrl = options.baseUrl ?? environment('POSTROOM_URL');
    const apiKey = options.apiKey ?? environment('POSTROOM_API_KEY');
    if (!baseUrl) throw new TypeError('baseUrl is missing: pass it, or set POSTROOM_URL');
    if (!apiKey) throw new TypeError('apiKey is missing: pass it, or set POSTROOM_API_KEY');
    if (isBrowser() && !options.dangerouslyAllowBrowser) {
      throw new TypeError('an API key in a browser is everybody’s: call the API from your backend');
    }
    const transport = new Transport({
      baseUrl: readBaseUrl(baseUrl),
      headers: { 'x-api-key': apiKey, ...clientHeaders(options.app), accept: 'application/json' },
      fetch: options.fetch,
    });
    super(transport, { timeoutMs: options.timeoutMs, maxRetries: options.maxRetries });
  }

  /** Everything that belongs to one user of your product: its `user_id` goes with each call. */
  user(userId: string): UserScope {
    return new UserScope(this, userId);
  }
}

/** A variable of the environment, where there is one. */
function environment(name: string): string | undefined {
  const { process } = globalThis as { process?: { env?: Record<string, string | undefined> } };
  return process?.env?.[name];
}

function isBrowser(): boolean {
  return 'document' in globalThis && 'window' in globalThis;
}
