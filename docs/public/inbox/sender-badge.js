/** The results of the sender checks: whether a mail is really from its sender. */
import { element } from './elements.js';

/**
 * @typedef {object} Auth verdicts such as `pass`, `fail` and `none`, by check
 * @property {string | null} [spf]
 * @property {string | null} [dkim]
 * @property {string | null} [dmarc]
 */

/** Results for and against a sender. */
const GOOD = ['pass'];
const BAD = ['fail', 'softfail', 'permerror'];

const CHECKS = /** @type {const} */ (['spf', 'dkim', 'dmarc']);

/**
 * @param {{ auth?: Auth | undefined }} body
 * @returns {Node[]}
 */
export function senderBadge({ auth }) {
  if (!auth) return [];
  const shown = CHECKS.filter((check) => typeof auth[check] === 'string');
  return shown.map((check) => {
    const verdict = String(auth[check]);
    const kind = GOOD.includes(verdict) ? 'good' : BAD.includes(verdict) ? 'bad' : 'open';
    return element('span', { class: `verdict ${kind}` }, `${check.toUpperCase()} ${verdict}`);
  });
}
