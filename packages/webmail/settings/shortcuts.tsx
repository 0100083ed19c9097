/** The keys of the page, and the dialog that names them. */
import { selection } from '../list/selection.ts';
import { focusSearch } from '../search/search-box.tsx';
import { current, mailboxes } from '../state/accounts.ts';
import { commands } from '../state/commands.ts';
import { closeOverlay, opens } from '../state/overlay.ts';
import { closeOpen, go, route } from '../state/route.ts';
import { Dialog } from '../ui/dialog.tsx';
import { runLastAction } from '../ui/toasts.tsx';

/** Keys that do the same, what they do, and how; without it they are those of a part of the page. */
type Shortcut = readonly [keys: readonly string[], says: string, run?: () => void];

/** Goes to the mailbox of a special use, where there is one. */
const to = (use: string) => () => {
  const all = [...mailboxes.value.values()];
  const mailbox = all.find(({ specialUse, name }) => specialUse === use || name === use);
  if (current.value && mailbox) go({ address: current.value.address, mailbox: mailbox.name });
};

/** Leaves one thing after the other. */
function stepBack(): void {
  if (selection.chosen.size > 0) selection.clear();
  else if (route.value.open) closeOpen();
  else if (route.value.query) go({ address: route.value.address, mailbox: 'INBOX' });
}

const shortcuts: Readonly<Record<string, readonly Shortcut[]>> = {
  Go: [
    [['j'], 'Next message', () => commands.step(1)],
    [['k'], 'Message before', () => commands.step(-1)],
    [['Enter', 'o'], 'Open it', () => commands.open()],
    [['Escape'], 'Close it, choose none', stepBack],
    [['/'], 'Search', focusSearch],
    [['g i'], 'Inbox', to('INBOX')],
    [['g s'], 'Sent', to('\\Sent')],
    [['g d'], 'Drafts', to('\\Drafts')],
    [['g a'], 'Archive', to('\\Archive')],
    [['g t'], 'Trash', to('\\Trash')],
  ],
  Do: [
    [['x'], 'Choose it', () => commands.choose()],
    [['e', 'y'], 'Archive', () => commands.archive()],
    [['#', 'Delete'], 'Delete', () => commands.remove()],
    [['!'], 'Spam, or no spam', () => commands.spam()],
    [['u'], 'Read or unread', () => commands.toggleRead()],
    [['s'], 'Star', () => commands.toggleStar()],
    [['v', 'm'], 'Move to', opens('move')],
    [['z'], 'Undo', runLastAction],
  ],
  Write: [
    [['c'], 'New message', () => commands.compose()],
    [['r'], 'Reply', () => commands.answer('reply')],
    [['a'], 'Reply to all', () => commands.answer('reply-all')],
    [['f'], 'Forward', () => commands.answer('forward')],
    [['Control+Enter'], 'Send'],
    [['?'], 'These keys', opens('help')],
  ],
};

/** For `useKeys`. */
export const pageKeys = Object.fromEntries(
  Object.values(shortcuts)
    .flat()
    .flatMap(([keys, , run]) => (run ? keys.map((key) => [key, run] as const) : [])),
);

export const Help = () => (
  <Dialog title="Keys" close={closeOverlay}>
    <div class="help">
      {Object.entries(shortcuts).map(([title, keys]) => (
        <table key={title}>
          <caption>{title}</caption>
          <tbody>
            {keys.map(([[key = ''], says]) => (
              <tr key={key}>
                <th scope="row">
                  {key.split(' ').map((one) => (
                    <kbd key={one}>{one.replace('Control', 'Ctrl').replace('Escape', 'Esc')}</kbd>
                  ))}
                </th>
                <td>{says}</td>
              </tr>
            ))}
          </tbody>
        </table>
      ))}
    </div>
  </Dialog>
);
