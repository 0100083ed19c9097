/**
 * Builds and sends the request of a form. What was entered is kept for the other forms of the page
 * as long as it is open, and nowhere else.
 */
import { reactive } from 'vue';
import type { TryIt } from '../reference/operation.ts';

export type { TryIt };

/** Entered once, used by every form: credentials by their kind, parameters by their name. */
export const entered = reactive({
  credentials: {} as Record<string, string>,
  parameters: {} as Record<string, string>,
});

export interface Outcome {
  /** `200 OK`, or what kept the request from being made. */
  readonly status: string;
  readonly isSuccess: boolean;
  readonly milliseconds: number;
  /** What was received, as text to show. */
  readonly text: string;
  readonly headers: readonly (readonly [name: string, value: string])[];
}

/** The path with its parameters filled in. */
export function urlOf(operation: TryIt, values: Readonly<Record<string, string>>): string {
  let path = operation.path;
  const query = new URLSearchParams();
  for (const { name, in: place } of operation.parameters) {
    const value = values[name]?.trim() ?? '';
    if (place === 'path') path = path.replace(`{${name}}`, encodeURIComponent(value));
    else if (value !== '') query.set(name, value);
  }
  const search = query.toString();
  return search === '' ? path : `${path}?${search}`;
}

/** Calls the server that this page came from. */
export async function send(
  operation: TryIt,
  values: Readonly<Record<string, string>>,
  credential: string,
  body: string,
): Promise<Outcome> {
  const start = performance.now();
  try {
    const headers = new Headers();
    if (operation.contentType) headers.set('content-type', operation.contentType);
    const sent = operation.contentType === 'application/x-ndjson' ? `${body.trimEnd()}\n` : body;
    if (credential !== '') await setCredential(headers, operation, credential, sent);
    const response = await fetch(urlOf(operation, values), {
      method: operation.method,
      headers,
      ...(operation.contentType && { body: sent }),
    });
    const text = await readText(response);
    return {
      status: `${response.status} ${response.statusText}`.trim(),
      isSuccess: response.ok,
      milliseconds: Math.round(performance.now() - start),
      text,
      headers: [...response.headers].filter(([name]) => shownHeaders.test(name)),
    };
  } catch (error) {
    const milliseconds = Math.round(performance.now() - start);
    return { status: 'Not sent', isSuccess: false, milliseconds, text: String(error), headers: [] };
  }
}

const shownHeaders =
  /^(?:content-|etag$|accept-ranges$|retry-after$|www-authenticate$|x-ratelimit-|x-request-id$)/;

async function setCredential(
  headers: Headers,
  operation: TryIt,
  credential: string,
  body: string,
): Promise<void> {
  if (operation.credential === 'apiKey') headers.set('x-api-key', credential.trim());
  if (operation.credential === 'bearer') {
    headers.set('authorization', `Bearer ${credential.trim().replace(/^bearer\s+/i, '')}`);
  }
  if (operation.credential === 'signature') {
    headers.set('x-mailserver-signature', await sign(credential, body));
  }
}

/** Hex HMAC-SHA256; browsers lend it to pages that came by HTTPS or from this machine. */
async function sign(secret: string, body: string): Promise<string> {
  if (!globalThis.crypto?.subtle) throw new Error('signing needs HTTPS or localhost');
  const encoder = new TextEncoder();
  const key = await crypto.subtle.importKey(
    'raw',
    encoder.encode(secret),
    { name: 'HMAC', hash: 'SHA-256' },
    false,
    ['sign'],
  );
  const signature = await crypto.subtle.sign('HMAC', key, encoder.encode(body));
  return [...new Uint8Array(signature)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** Longest text that is shown, in characters. */
const SHOWN_MAX = 100_000;

async function readText(response: Response): Promise<string> {
  const type = response.headers.get('content-type') ?? '';
  if (!/json|text|rfc822/.test(type)) {
    const { byteLength } = await response.arrayBuffer();
    return byteLength === 0 ? '' : `${byteLength} bytes`;
  }
  const text = await response.text();
  const shown = type.includes('json') && text !== '' ? indent(text) : text;
  return shown.length > SHOWN_MAX ? `${shown.slice(0, SHOWN_MAX)}\n…` : shown;
}

function indent(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
