/** Above the list: what it shows, how many are chosen, and what can be done with these. */
import { defineComponent, type FunctionalComponent } from 'vue';
import { current } from '../state/accounts.ts';
import { removeForEver } from '../state/actions.ts';
import { commands, state } from '../state/commands.ts';
import { titleOf } from '../state/describe.ts';
import { goTo, route } from '../state/route.ts';
import { count, formatNumber } from '../ui/format.ts';
import { Tool } from '../ui/icon.tsx';
import { ask } from '../ui/questions.tsx';
import { sayFailure } from '../ui/toasts.tsx';
import { selection } from './selection.ts';
import { list } from './source.ts';

export const ListBar = defineComponent(() => () => (
  <div class="list-bar">{selection.chosen.size > 0 ? <Chosen /> : <Title />}</div>
));

const Title: FunctionalComponent = () => {
  const { mailbox, query, address } = route.value;
  const { total, isOffline, isIndexing } = list.source.value;
  const info = current.value?.live.mailboxes.find(({ name }) => name === mailbox);
  return (
    <>
      <Tool
        icon="check"
        label="Choose all"
        press={() => selection.chooseRead()}
        disabled={list.rows.value.length === 0}
      />
      <h1>
        {query ? 'Search' : info ? titleOf(info) : mailbox}
        <span class="soft">
          {query
            ? `${count(list.rows.value.length, 'match').replace('matchs', 'matches')}`
            : formatNumber(info?.total ?? total)}
        </span>
      </h1>
      {query && isOffline && <span class="note">Only mail on this device</span>}
      {query && isIndexing && <span class="note">New mail is still being indexed</span>}
      {query ? (
        <Tool icon="close" label="End the search" press={() => goTo(address, 'INBOX')} />
      ) : (
        <>
          {state.use.value === '\\Trash' && total > 0 && <EmptyTrash total={total} />}
          <Tool icon="refresh" label="Look for new mail" press={look} />
        </>
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

function EmptyTrash({ total }: { total: number }) {
  const { mailbox } = route.value;
  const askFirst = () =>
    ask({
      title: 'Empty the trash?',
      text: `${count(total, 'message')} will be gone. Nobody can bring them back.`,
      action: 'Empty the trash',
      isDangerous: true,
      run: () => removeForEver({ allOf: mailbox, total }),
    });
  return (
    <button type="button" class="link" onClick={askFirst}>
      Empty
    </button>
  );
}

const Chosen: FunctionalComponent = () => {
  const { chosen, isAll } = selection;
  const { total } = list.source.value;
  const canHaveAll = !isAll.value && !route.value.query && list.missing.value > 0;
  return (
    <>
      <Tool icon="close" label="Choose none" shortcut="Escape" press={() => selection.clear()} />
      <span class="amount">
        {isAll.value ? `All ${formatNumber(total)}` : `${formatNumber(chosen.size)} chosen`}
      </span>
      {canHaveAll && chosen.size === list.rows.value.length && (
        <button type="button" class="link" onClick={() => selection.chooseAll()}>
          All {formatNumber(total)}
        </button>
      )}
      <span class="actions" role="toolbar" aria-label="Chosen messages">
        <Actions />
      </span>
    </>
  );
};

/** The same for chosen rows, and for what is open. */
export const Actions: FunctionalComponent = () => {
  const isSpam = state.use.value === '\\Junk';
  return (
    <>
      {state.use.value !== '\\Archive' && (
        <Tool icon="archive" label="Archive" shortcut="e" press={commands.archive} />
      )}
      <Tool icon="delete" label="Delete" shortcut="#" press={commands.remove} />
      <Tool icon="spam" label={isSpam ? 'No spam' : 'Spam'} shortcut="!" press={commands.spam} />
      <Tool
        icon={state.isUnread.value ? 'read' : 'unread'}
        label={state.isUnread.value ? 'Mark as read' : 'Mark as unread'}
        shortcut="u"
        press={commands.toggleRead}
      />
      <Tool icon="move" label="Move to" shortcut="v" press={commands.askWhere} />
    </>
  );
};
