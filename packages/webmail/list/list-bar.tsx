/** Above the list: what it shows, how many are chosen, and what can be done with these. */
import { current, here, titleOfName } from '../state/accounts.ts';
import { sizeOf } from '../state/actions.ts';
import { commands, hasUnread, target } from '../state/commands.ts';
import { opens } from '../state/overlay.ts';
import { goTo, route } from '../state/route.ts';
import { Button, Tool } from '../ui/button.tsx';
import { count } from '../ui/format.ts';
import { sayFailure } from '../ui/toasts.tsx';
import { selection } from './selection.ts';
import { list } from './source.ts';

export const ListBar = () => (
  <div class="list-bar bar wrap ruled">
    {selection.chosen.size > 0 ? <Chosen /> : route.value.query ? <Found /> : <Title />}
  </div>
);

function chooseTool() {
  const isEmpty = list.rows.value.length === 0;
  return <Tool icon="check" label="Choose all" press={selection.chooseRead} disabled={isEmpty} />;
}

const Title = () => {
  const { total } = here.value ?? list.source.value;
  return (
    <>
      {chooseTool()}
      <h1 class="cut">
        {titleOfName(route.value.mailbox)} <span class="soft small">{total.toLocaleString()}</span>
      </h1>
      {current.value?.live.state === 'offline' && <span class="pill wait">Offline</span>}
      {here.value?.specialUse === '\\Trash' && total > 0 && (
        <Button class="link" label="Empty" press={commands.empty} />
      )}
      <Tool icon="refresh" label="Look for new mail" press={look} />
    </>
  );
};

function look(): void {
  current.value?.client
    .mailbox(route.value.mailbox)
    .sync()
    .catch((error: unknown) => sayFailure('No answer from the server', error));
}

const Found = () => {
  const { isOffline, isIndexing, hasMore } = list.source.value;
  const { length } = list.messages.value;
  return (
    <>
      {chooseTool()}
      <h1 class="cut">
        Search <span class="soft small">{count(length, 'message', hasMore ? '+' : '')}</span>
      </h1>
      {isOffline && (
        <span class="pill wait" title="Only mail on this device was searched">
          Offline
        </span>
      )}
      {isIndexing && <span class="pill wait">New mail is still being indexed</span>}
      <Tool icon="close" label="End the search" press={() => goTo(route.value.address, 'INBOX')} />
    </>
  );
};

const Chosen = () => {
  const { chosen, isAll } = selection;
  const all = `All ${count(list.source.value.total, 'message')}`;
  const canHaveAll = !isAll.value && list.missing.value > 0;
  return (
    <>
      <Tool icon="close" label="Choose none" shortcut="Escape" press={selection.clear} />
      <span class="amount">{isAll.value ? all : count(sizeOf(target.value), 'message')}</span>
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
