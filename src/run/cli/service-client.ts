/** Calls the running service with the settings of this folder, with its API key. */
import {
  type Config,
  fileSecretStore,
  parseSecrets,
  publicUrlOf,
  type Secrets,
} from '../config/config.ts';
import { CommandFailed } from './command.ts';

/** Bulk actions answer within 5 s, everything else far sooner. */
const ANSWER_WITHIN_MS = 60_000;

/** The service does not listen where the settings say. */
export class NotRunning extends CommandFailed {}

/** An answer other than 2xx. */
export class Refused extends CommandFailed {
  readonly code: string;

  constructor(code: string, message: string, fields?: readonly string[]) {
    // The service judges most arguments.
    super(message, code === 'invalid_request' ? 2 : 1, fields);
    this.code = code;
  }
}

export class ServiceClient {
  /** Without a slash at its end. */
  readonly url: string;
  /** The first is tried first: a service that was not restarted since a rotation knows only the others. */
  readonly #keys: string[];

  constructor(url: string, keys: readonly string[]) {
    this.url = url;
    this.#keys = [...keys];
  }

  /** The API key that the service accepts, once it has accepted one. */
  get key(): string {
    return this.#keys[0] ?? '';
  }

  /**
   * Makes one request.
   *
   * @returns the JSON of the answer, in the form that OpenAPI describes
   * @throws NotRunning, Refused
   */
  async call<Body>(
    method: 'GET' | 'POST',
    path: string,
    body?: object,
    headers?: Record<string, string>,
  ): Promise<Body> {
    const own = headers ?? { 'x-api-key': this.key };
    const response = await fetch(this.url + path, {
      method,
      headers: body ? { ...own, 'content-type': 'application/json' } : own,
      ...(body && { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(ANSWER_WITHIN_MS),
    }).catch((error: unknown) => {
      throw new NotRunning(
        `no service answers at ${this.url} (${reasonOf(error)}): start it, or name another one with --url`,
      );
    });
    const text = await response.text();
    if (response.ok) return JSON.parse(text);
    if (response.status === 401 && !headers && this.#keys.length > 1) {
      this.#keys.shift();
      return this.call(method, path, body);
    }
    throw explain(response.status, text, `${method} ${path}`);
  }
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { cause } = error;
  if (!(cause instanceof Error)) return error.message;
  return 'code' in cause && cause.code ? String(cause.code) : cause.message;
}

function explain(status: number, text: string, request: string): CommandFailed {
  try {
    // The detail has what is wrong with each field.
    const { code, detail, errors } = JSON.parse(text);
    return new Refused(
      code,
      detail,
      errors?.map(({ field }: { field: string }) => field),
    );
  } catch {
    return new CommandFailed(
      `${request} got ${status} from a server that is not Postroom: correct HOST, PORT or --url`,
    );
  }
}

/**
 * @param url replaces HOST and PORT of the settings, for a service on another machine for example
 * @throws CommandFailed where there are no keys yet, or the URL is none
 */
export async function openClient(config: Config, url: string | undefined): Promise<ServiceClient> {
  const {
    dataDir,
    database: { urls },
    http: { host, port },
  } = config;
  if (url !== undefined) checkUrl(url);
  const keys = config.credentials.apiKeys ?? (await readSecrets(config))?.apiKey;
  if (!keys) {
    throw new NotRunning(
      `there is no API key in ${urls ? 'the database' : dataDir}: start the service, which makes one, or give the command the settings of the service (DATA_DIR or API_KEYS)`,
    );
  }
  return new ServiceClient((url ?? publicUrlOf(host, port)).replace(/\/+$/, ''), keys);
}

/** @throws CommandFailed that does not repeat it: it may have a password */
function checkUrl(url: string): void {
  const { protocol = '', username, password } = URL.parse(url) ?? {};
  if (/^https?:$/.test(protocol) && !username && !password) return;
  throw new CommandFailed('--url: expected a URL such as https://mail.example.com', 2);
}

/** The generated secrets, from where the service keeps them; undefined before its first start. */
async function readSecrets({ dataDir, database: { urls } }: Config): Promise<Secrets | undefined> {
  if (!urls) {
    const store = fileSecretStore(dataDir);
    const text = await store.read();
    return text === undefined ? undefined : parseSecrets(text, store.location);
  }
  const { openPostgresToRead, settingOf } = await import('../../platform/database/database.ts');
  await using database = openPostgresToRead(urls);
  const text = await settingOf(database, 'secrets');
  return text === undefined ? undefined : parseSecrets(text, 'row "secrets" of table settings');
}
