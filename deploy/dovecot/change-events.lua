-- Appends a line of JSON to Postroom's spool for each mailbox that a transaction changed.
--
-- Called after the transaction was committed. It never fails what the client asked for: where the
-- spool cannot be written, the log says so, and apps see the change at their next sync.

-- Dovecot quotes nothing here; RFC 8259 section 7 says what must be.
local function quote(text)
  return '"' .. text:gsub('[%c"\\\127]', function(char)
    return string.format('\\u%04x', char:byte())
  end) .. '"'
end

local function status_of(user, name)
  -- Opening it reads the index with what was just committed: the MODSEQ is that of now. A sync
  -- would add nothing to it, and reads the whole folder of a Maildir each time.
  local mailbox = user:mailbox(name)
  local status = mailbox:status(dovecot.storage.STATUS_UIDVALIDITY,
    dovecot.storage.STATUS_HIGHESTMODSEQ)
  mailbox:free()
  return status.uidvalidity, status.highest_modseq
end

local function append(path, line)
  local file, reason = io.open(path, 'a')
  if file == nil then return reason end
  -- One write for one line, so that lines of many processes never mix (O_APPEND). It begins with
  -- a newline too, so that a line cut off by a full disk spoils no other.
  file:setvbuf('full', 65536)
  local written, failure = file:write('\n', line, '\n')
  local closed, why = file:close()
  if not written then return failure end
  if not closed then return why end
  return nil
end

local function tell(user, name, exists)
  local uidvalidity, highestmodseq = 0, 0
  if exists then
    local found, first, second = pcall(status_of, user, name)
    -- It may be gone again by now. Zero is no UIDVALIDITY (RFC 3501 section 9, nz-number).
    if found then uidvalidity, highestmodseq = first, second end
  end
  local line = string.format(
    '{"user":%s,"mailbox":%s,"uidvalidity":"%.0f","highestmodseq":"%.0f"}',
    quote(user.username), quote(name), uidvalidity, highestmodseq)
  local problem = append(user:plugin_getenv('postroom_spool'), line)
  if problem ~= nil then
    dovecot.i_error('cannot tell Postroom of a change: ' .. tostring(problem))
  end
end

function dovecot_lua_notify_begin_txn(user)
  return { user = user, changed = {} }
end

local function changed(context, event)
  context.changed[event.mailbox] = true
end

local function gone(context, event)
  context.changed[event.mailbox] = false
end

dovecot_lua_notify_event_message_new = changed
dovecot_lua_notify_event_message_append = changed
dovecot_lua_notify_event_message_expunge = changed
dovecot_lua_notify_event_message_read = changed
dovecot_lua_notify_event_message_trash = changed
dovecot_lua_notify_event_flags_set = changed
dovecot_lua_notify_event_flags_clear = changed
dovecot_lua_notify_event_mailbox_create = changed
dovecot_lua_notify_event_mailbox_delete = gone

function dovecot_lua_notify_event_mailbox_rename(context, event)
  context.changed[event.mailbox] = true
  context.changed[event.mailbox_old] = false
end

function dovecot_lua_notify_end_txn(context)
  for name, exists in pairs(context.changed) do
    tell(context.user, name, exists)
  end
end
