/** The form of a message: recipients, subject, text, the folded quote, files, and when it is sent. */
import { defineComponent, type FunctionalComponent, ref } from 'vue';
import type { Account } from '../state/parts.ts';
import { Icon, Tool } from '../ui/icon.tsx';
import { Menu } from '../ui/menu.tsx';
import { AttachButton, FileList, QuoteFold } from './compose-files.tsx';
import { PlainEditor, RichEditor } from './editor.tsx';
import { htmlTools } from './html-tools.ts';
import { LaterMenu } from './later-menu.tsx';
import { Recipients } from './recipients.tsx';
import { textToHtml } from './reply.ts';
import type { ComposeSession } from './session.ts';
import { useFiles } from './use-files.ts';

interface FormProps {
  readonly title: string;
  readonly account: Account;
  readonly session: ComposeSession;
}

export const ComposeForm = defineComponent(
  (props: FormProps) => {
    const { session } = props;
    const { content } = session;
    const files = useFiles(session);
    const isLarge = ref(false);
    const press = (event: KeyboardEvent) => {
      // Single keys belong to the text; those of the list do nothing here.
      event.stopPropagation();
      if (event.isComposing) return;
      if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        void session.send();
      } else if (event.key === 'Escape') void session.close();
    };
    const submit = (event: Event) => {
      event.preventDefault();
      void session.send();
    };
    return () => (
      <form
        class={['compose-form', { large: isLarge.value, dropping: files.isDropping.value }]}
        novalidate
        onSubmit={submit}
        onKeydown={press}
        {...files.on}
      >
        <header class="compose-head">
          <h2>{props.title}</h2>
          <span class="soft" role="status">
            {session.status.value}
          </span>
          <Tool
            icon="expand"
            label="Larger"
            pressed={isLarge.value}
            press={() => {
              isLarge.value = !isLarge.value;
            }}
          />
          <Tool icon="close" label="Save and close" press={() => void session.close()} />
        </header>
        <div class="fields">
          <ComposeFields account={props.account} session={session} />
          <ComposeText session={session} attach={files.attach} />
          {content.quote && (
            <QuoteFold quote={content.quote} drop={() => change(session, { quote: undefined })} />
          )}
          <FileList
            files={content.files}
            remove={(at) =>
              change(session, { files: content.files.filter((_, one) => one !== at) })
            }
          />
        </div>
        <ComposeFoot session={session} attach={files.attach} />
      </form>
    );
  },
  { props: ['title', 'account', 'session'] },
);

function change(session: ComposeSession, changes: Partial<ComposeSession['content']>): void {
  Object.assign(session.content, changes);
  session.changed();
}

/** To, Cc, Bcc and the subject; and why it is not sent. */
const ComposeFields = defineComponent(
  (props: Omit<FormProps, 'title'>) => {
    const { session } = props;
    const { content, trouble } = session;
    const hasCopies = ref(content.cc.length + content.bcc.length > 0);
    const people = (field: 'to' | 'cc' | 'bcc', label: string, more?: () => unknown) => (
      <Recipients
        key={field}
        label={label}
        people={content[field]}
        client={props.account.client}
        startsHere={field === 'to' && content.to.length === 0}
        onChange={(chosen) => change(session, { [field]: chosen })}
      >
        {more?.()}
      </Recipients>
    );
    const showCopies = () => (
      <button
        type="button"
        class="link"
        onClick={() => {
          hasCopies.value = true;
        }}
      >
        Cc, Bcc
      </button>
    );
    return () => (
      <>
        {people('to', 'To', hasCopies.value ? undefined : showCopies)}
        {hasCopies.value && people('cc', 'Cc')}
        {hasCopies.value && people('bcc', 'Bcc')}
        <label class="subject">
          <span>Subject</span>
          <input
            type="text"
            value={content.subject}
            onInput={(event) =>
              change(session, { subject: (event.target as HTMLInputElement).value })
            }
            onKeydown={(event) => {
              // In a field of one line Enter would press "Send".
              if (event.key === 'Enter' && !event.ctrlKey && !event.metaKey) event.preventDefault();
            }}
          />
        </label>
        {trouble.value?.why && (
          <p class="notice bad" role="alert">
            {trouble.value.why}
          </p>
        )}
      </>
    );
  },
  { props: ['account', 'session'] },
);

interface PartProps {
  readonly session: ComposeSession;
  readonly attach: (files: Iterable<File>) => void;
}

const ComposeText: FunctionalComponent<PartProps> = ({ session, attach }) =>
  session.content.html === undefined ? (
    <PlainEditor
      text={session.content.text}
      startsHere={session.content.to.length > 0}
      onChange={(text) => change(session, { text })}
    />
  ) : (
    <RichEditor
      html={session.content.html}
      onFiles={attach}
      onChange={(html) => change(session, { html })}
    />
  );
ComposeText.props = ['session', 'attach'];

const ComposeFoot: FunctionalComponent<PartProps> = ({ session, attach }) => {
  const { html, text } = session.content;
  const turn = () => {
    if (html === undefined) change(session, { html: textToHtml(text) });
    else change(session, { html: undefined, text: htmlTools.textOf(html) });
  };
  return (
    <footer class="compose-foot">
      <button
        type="submit"
        class="main"
        disabled={session.isSending.value}
        title="Send (Ctrl+Enter)"
      >
        <Icon name="send" />
        {session.isSending.value ? 'Sending…' : 'Send'}
      </button>
      <LaterMenu send={(at) => void session.send(at)} />
      <AttachButton attach={attach} />
      <Menu
        label="More"
        items={[
          { label: html === undefined ? 'Formatting' : 'Plain text', icon: 'edit', run: turn },
          {
            label: 'Throw away',
            icon: 'delete',
            isDangerous: true,
            run: () => void session.discard(),
          },
        ]}
      />
    </footer>
  );
};
ComposeFoot.props = ['session', 'attach'];
