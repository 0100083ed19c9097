/** What an empty mailbox shows: how to send it a first mail. */
import { element } from './elements.js';

/** Where SMTP listens unless configured otherwise; the page has no way to ask. */
const SMTP_PORT = 2525;

/**
 * @param {string} address
 * @returns {Node[]}
 */
export function emptyHint(address) {
  const host = location.hostname.replace(/^\[|\]$/g, '');
  const server = host.includes(':') ? `[${host}]` : host;
  const swaks = `swaks --server ${server}:${SMTP_PORT} --from bob@sender.test \\\n  --to ${address} --h-Subject 'Hello' --body 'It works.'`;
  const curl = `printf 'From: bob@sender.test\\nTo: ${address}\\nSubject: Hello\\n\\nIt works.\\n' |\n  curl --crlf smtp://${server}:${SMTP_PORT} --mail-from bob@sender.test \\\n  --mail-rcpt ${address} -T -`;
  return [
    element('h2', {}, 'No mail yet'),
    element('p', {}, 'Send some and watch it arrive here. With swaks:'),
    command(swaks),
    element('p', {}, 'Or with curl:'),
    command(curl),
    element(
      'p',
      { class: 'hint' },
      `Port ${SMTP_PORT} is the default; your server may have another SMTP_PORT.`,
    ),
  ];
}

/** @param {string} text */
function command(text) {
  const button = element('button', { type: 'button', class: 'plain copy' }, 'Copy');
  button.addEventListener('click', async () => {
    await navigator.clipboard.writeText(text);
    button.textContent = 'Copied';
    setTimeout(() => {
      button.textContent = 'Copy';
    }, 2_000);
  });
  // Only pages that came by HTTPS, or from this machine, may write to the clipboard.
  const tools = navigator.clipboard ? [button] : [];
  return element('div', { class: 'command' }, element('pre', { tabindex: '0' }, text), ...tools);
}
