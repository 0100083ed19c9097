/** What each key does. */
import { type FunctionalComponent, ref } from 'vue';
import { Dialog } from '../ui/dialog.tsx';

export const isHelpOpen = ref(false);

const groups = [
  [
    'Go',
    [
      ['j k', 'Next message, message before'],
      ['Enter', 'Open it'],
      ['Esc', 'Close it, choose none'],
      ['/', 'Search'],
      ['g i', 'Inbox'],
      ['g s', 'Sent'],
      ['g d', 'Drafts'],
      ['g a', 'Archive'],
    ],
  ],
  [
    'Do',
    [
      ['x', 'Choose it'],
      ['e', 'Archive'],
      ['#', 'Delete'],
      ['!', 'Spam, or no spam'],
      ['u', 'Read or unread'],
      ['s', 'Star'],
      ['v', 'Move to'],
      ['z', 'Undo'],
    ],
  ],
  [
    'Write',
    [
      ['c', 'New message'],
      ['r', 'Reply'],
      ['a', 'Reply to all'],
      ['f', 'Forward'],
      ['Ctrl+Enter', 'Send'],
    ],
  ],
] as const;

const close = () => {
  isHelpOpen.value = false;
};

export const Help: FunctionalComponent = () => (
  <Dialog title="Keys" close={close}>
    <div class="help">
      {groups.map(([title, keys]) => (
        <table key={title}>
          <caption>{title}</caption>
          <tbody>
            {keys.map(([key, what]) => (
              <tr key={key}>
                <th scope="row">
                  {key.split(' ').map((one) => (
                    <kbd key={one}>{one}</kbd>
                  ))}
                </th>
                <td>{what}</td>
              </tr>
            ))}
          </tbody>
        </table>
      ))}
    </div>
  </Dialog>
);
