/** The hint in an empty mailbox: how to send a first mail to it. */
import { element } from './elements.js';

/** The default port of SMTP; the page cannot find out another one. */
const SMTP_PORT = 2525;

/**
 * @param {string} address
 * @param {string} mailbox
 * @param {() => void} onSendTest
 * @returns {Node[]}
 */
export function emptyHint(address, mailbox, onSendTest) {
  if (mailbox !== 'INBOX') return [element('p', {}, 'Nothing in here.')];
  const host = location.hostname.replace(/^\[|\]$/g, '');
  const server = host.includes(':') ? `[${host}]` : host;
  const swaks = [
    `swaks --server ${server}:${SMTP_PORT} \\`,
    '  --from bob@sender.test \\',
    `  --to ${address} \\`,
    "  --h-Subject 'Hello' \\",
    "  --body 'It works.'",
  ];
  const curl = [
    "printf '%s\\n' \\",
    "  'From: bob@sender.test' \\",
    "  'Subject: Hello' '' 'Hi' |",
    'curl --crlf \\',
    `  smtp://${server}:${SMTP_PORT} \\`,
    '  --mail-from bob@sender.test \\',
    `  --mail-rcpt ${address} \\`,
    '  -T -',
  ];
  return [
    element('h2', {}, 'No mail yet'),
    element('p', {}, 'Send some and watch it arrive here.'),
    element(
      'button',
      { type: 'button', class: 'plain strong test-mail', click: onSendTest },
      'Send yourself a test mail',
    ),
    element('p', {}, 'Or by SMTP, as other servers do. With swaks:'),
    command(swaks.join('\n')),
    element('p', {}, 'Or with curl:'),
    command(curl.join('\n')),
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
