/** Above the list: what it shows, how many are chosen, and what can be done with these. */
import { current, here, isTrash, titleOfName } from '../state/accounts.ts';
import { sizeOf } from '../state/actions.ts';
import { commands, hasUnread, target } from '../state/commands.ts';
import { opens } from '../state/overlay.ts';
import { go, route } from '../state/route.ts';
import { Button, Tool } from '../ui/button.tsx';
import { count } from '../ui/format.ts';
import { sayFailure } from '../ui/toasts.tsx';
import { selection } from './selection.ts';
import { list } from './source.ts';

export const ListBar = () => (
  <div class="list-bar bar wrap ruled">{selection.chosen.size > 0 ? <Chosen /> : <Shown />}</div>
);

/** What the list is of. */
const Shown = () => {
  const { query, mailbox, address } = route.value;
  const { isOffline, isIndexing, hasMore, total } = list.source.value;
  const { length } = list.messages.value;
  const all = here.value?.total ?? total;
  const isAway = isOffline || (!query && current.value?.live.state === 'offline');
  return (
    <>
      <Tool icon="check" label="Choose all" press={selection.chooseRead} disabled={length === 0} />
      <h1 class="cut">
        {query ? 'Search' : titleOfName(mailbox)}{' '}
        <span class="soft small">
          {query ? count(length, 'message', hasMore ? '+' : '') : all.toLocaleString()}
        </span>
      </h1>
      {isAway && (
        <span class="pill wait" title={query && 'Only mail on this device was searched'}>
          Offline
        </span>
      )}
      {isIndexing && <span class="pill wait">New mail is still being indexed</span>}
      {!query && isTrash(mailbox) && all > 0 && (
        <Button class="link" label="Empty" press={commands.empty} />
      )}
      {query ? (
        <Tool icon="close" label="End the search" press={() => go({ address, mailbox: 'INBOX' })} />
      ) : (
        <Tool icon="refresh" label="Look for new mail" press={look} />
      )}
    </>
  );
};

function look(): void {
  current.value?.client
    .mailbox(route.value.mailbox)
    .sync()
    .catch((error: unknown) => sayFailure('No answer from the server', error));
}

const Chosen = () => {
  const { chosen, isAll } = selection;
  const all = `All ${count(list.source.value.total, 'message')}`;
  const amount = sizeOf(target.value);
  const canHaveAll = !isAll.value && list.missing.value > 0;
  return (
    <>
      <Tool icon="close" label="Choose none" shortcut="Escape" press={selection.clear} />
      <span class="amount">
        {isAll.value && 'All '}
        {amount.toLocaleString()} <span class="unit">{amount === 1 ? 'message' : 'messages'}</span>
      </span>
      {canHaveAll && chosen.size === list.rows.value.length && (
        <Button class="link" label={all} press={selection.chooseAll} />
      )}
      <span class="actions" role="toolbar" aria-label="Chosen messages">
        <Actions />
      </span>
    </>
  );
};

/** The same for chosen rows, and for what is open. */
export const Actions = () => {
  const use = here.value?.specialUse;
  const readIcon = hasUnread.value ? 'read' : 'mail';
  const readLabel = hasUnread.value ? 'Mark as read' : 'Mark as unread';
  const spamLabel = use === '\\Junk' ? 'No spam' : 'Spam';
  return (
    <>
      {use !== '\\Archive' && (
        <Tool icon="archive" label="Archive" shortcut="e" press={commands.archive} />
      )}
      <Tool icon="delete" label="Delete" shortcut="#" press={commands.remove} />
      <Tool icon="spam" label={spamLabel} shortcut="!" press={commands.spam} />
      <Tool icon={readIcon} label={readLabel} shortcut="u" press={commands.toggleRead} />
      <Tool icon="move" label="Move to" shortcut="v" press={opens('move')} />
    </>
  );
};
