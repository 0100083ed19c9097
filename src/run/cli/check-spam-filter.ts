/** The check of the doctor that asks Rspamd whether it is there. */
import { CONNECT_MS, failed, ok, reasonOf, type Verdict } from './check-stores.ts';

/** @param url of RSPAMD_URL */
export async function checkSpamFilter(url: string): Promise<Verdict> {
  const wrong = (said: string) =>
    failed(
      `${url}: ${said}`,
      'start Rspamd, and let RSPAMD_URL name its normal worker (port 11333): until it answers, mail is accepted without it',
    );
  try {
    const { ok: isThere, status } = await fetch(`${url}/ping`, {
      signal: AbortSignal.timeout(CONNECT_MS),
    });
    return isThere ? ok(`${url} answers`) : wrong(`the answer is ${status}`);
  } catch (error) {
    // `fetch` says only that it failed, and has the reason in its cause.
    return wrong(reasonOf(error instanceof TypeError ? error.cause : error));
  }
}
