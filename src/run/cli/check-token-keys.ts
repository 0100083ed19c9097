/** The check of the doctor that fetches the keys of mailbox tokens. */
import { many } from '../../platform/errors/errors.ts';
import { CONNECT_MS, failed, ok, reasonOf, type Verdict } from './check-stores.ts';

/** @param url of JWT_JWKS_URL */
export async function checkTokenKeys(url: string): Promise<Verdict> {
  const wrong = (said: string) =>
    failed(
      `${url}: ${said}`,
      'let JWT_JWKS_URL name a JWK set (RFC 7517): until it does, requests with tokens that others signed are answered 503',
    );
  try {
    const answer = await fetch(url, { signal: AbortSignal.timeout(CONNECT_MS) });
    if (!answer.ok) return wrong(`the answer is ${answer.status}`);
    const { keys }: { keys?: unknown } = Object(await answer.json());
    if (!Array.isArray(keys) || keys.length === 0) return wrong('the answer has no keys');
    return ok(`${url} has ${many(keys.length, 'key')}`);
  } catch (error) {
    if (error instanceof SyntaxError) return wrong('the answer is no JSON');
    // `fetch` says only that it failed, and has the reason in its cause.
    return wrong(reasonOf(error instanceof TypeError ? error.cause : error));
  }
}
