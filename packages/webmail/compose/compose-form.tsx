/** The form of a message: recipients, subject, text, the folded quote, files, and when it is sent. */
import { defineComponent, type FunctionalComponent, ref } from 'vue';
import type { Account } from '../state/parts.ts';
import { Icon, Tool } from '../ui/icon.tsx';
import { Failure } from '../ui/loaded.tsx';
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
  ({ title, account, session }: FormProps) => {
    const { content } = session;
    const files = useFiles(session);
    const isLarge = ref(false);
    const enlarge = () => {
      isLarge.value = !isLarge.value;
    };
    const press = (event: KeyboardEvent) => {
      // Single keys belong to the text; those of the list do nothing here.
      event.stopPropagation();
      // In an open menu they belong to that.
      if (event.isComposing || document.querySelector(':popover-open')) return;
      if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        void session.send();
      } else if (event.key === 'Escape') void session.close();
    };
    const submit = (event: Event) => {
      event.preventDefault();
      void session.send();
    };
    const removeFile = (at: number) =>
      session.change({ files: content.files.filter((_, one) => one !== at) });
    return () => (
      <form
        class={['compose-form', { large: isLarge.value, dropping: files.isDropping.value }]}
        novalidate
        onSubmit={submit}
        onKeydown={press}
        {...files.on}
      >
        <header class="bar">
          <h2>{title}</h2>
          <span class="soft" role="status">
            {session.status.value}
          </span>
          <Tool icon="expand" label="Larger" pressed={isLarge.value} press={enlarge} />
          <Tool icon="close" label="Save and close" press={() => void session.close()} />
        </header>
        <div class="fields">
          <ComposeFields account={account} session={session} />
          <ComposeText session={session} attach={files.attach} />
          {content.quote && (
            <QuoteFold quote={content.quote} drop={() => session.change({ quote: undefined })} />
          )}
          <FileList files={content.files} remove={removeFile} />
        </div>
        <ComposeFoot session={session} attach={files.attach} />
      </form>
    );
  },
  { props: ['title', 'account', 'session'] },
);

/** To, Cc, Bcc and the subject; and why it is not sent. */
const ComposeFields = defineComponent(
  ({ account, session }: Omit<FormProps, 'title'>) => {
    const { content, trouble } = session;
    const hasCopies = ref(content.cc.length + content.bcc.length > 0);
    const showCopies = () => {
      hasCopies.value = true;
    };
    const people = (field: 'to' | 'cc' | 'bcc', label: string) => (
      <Recipients
        key={field}
        label={label}
        people={content[field]}
        client={account.client}
        startsHere={field === 'to' && content.to.length === 0}
        onChange={(chosen) => session.change({ [field]: chosen })}
      >
        {hasCopies.value ? undefined : (
          <button type="button" class="link" onClick={showCopies}>
            Cc, Bcc
          </button>
        )}
      </Recipients>
    );
    return () => (
      <>
        {people('to', 'To')}
        {hasCopies.value && people('cc', 'Cc')}
        {hasCopies.value && people('bcc', 'Bcc')}
        <label class="subject-field">
          <span>Subject</span>
          <input
            type="text"
            value={content.subject}
            onInput={(event) =>
              session.change({ subject: (event.target as HTMLInputElement).value })
            }
            onKeydown={(event) => {
              // In a field of one line Enter would press "Send".
              if (event.key === 'Enter' && !event.ctrlKey && !event.metaKey) event.preventDefault();
            }}
          />
        </label>
        <Failure text={trouble.value} />
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
      onChange={(text) => session.change({ text })}
    />
  ) : (
    <RichEditor
      html={session.content.html}
      onFiles={attach}
      onChange={(html) => session.change({ html })}
    />
  );

const ComposeFoot: FunctionalComponent<PartProps> = ({ session, attach }) => {
  const { html, text } = session.content;
  const turn = () =>
    session.change(
      html === undefined
        ? { html: textToHtml(text) }
        : { html: undefined, text: htmlTools.textOf(html) },
    );
  const discard = () => void session.discard();
  return (
    <footer class="bar">
      <button
        type="submit"
        class="main"
        disabled={session.isSending.value}
        title="Send (Ctrl+Enter)"
      >
        <Icon name="send" />
        {session.isSending.value ? 'Sending…' : 'Send'}
      </button>
      <LaterMenu send={(at) => void session.send(at.toISOString())} />
      <AttachButton attach={attach} />
      <Menu
        label="More"
        items={[
          { label: html === undefined ? 'Formatting' : 'Plain text', icon: 'edit', run: turn },
          { label: 'Throw away', icon: 'delete', isDangerous: true, run: discard },
        ]}
      />
    </footer>
  );
};
