-- Adds tasks that say something about load: unique ones, and those that wait for calm (debounce).
local remember_ms = 300000

-- The id whose task is the one of a digest: for a period, or as long as it has not ended. An
-- error, if something else is in the place of the record.
local function holder_of(digest)
  local record = root .. 'unique:' .. digest
  local holder = redis.pcall('GET', record)
  if not holder or holder.err or redis.call('PTTL', record) > 0 then
    return holder
  end
  if not (redis.call('ZSCORE', due, holder) or redis.call('ZSCORE', leased, holder)) then
    return nil
  end
  local task = redis.pcall('HMGET', prefix .. holder, 'unique', 'next_load')
  local is_next = not task.err and string.find(task[2] or '', 'unique=' .. digest, 1, true)
  return not task.err and (task[1] == digest or is_next) and holder or nil
end

-- Every add moves the due on until there is none for a while, or the first was long enough ago.
local function put_off(id, payload, token, load)
  local task = redis.pcall('HMGET', prefix .. id, 'first', 'next_load')
  local state = state_of(id)
  local first = not task.err and (state == 'scheduled' or state == 'early') and number(task[1])
  if not task.err and state == 'running' then
    first = number(read_load(task[2]).first)
  end
  load.first = int(first or now)
  load.text = load.text .. '\nfirst=' .. load.first
  local at = now + load.debounce
  if load.debounce_max then
    at = math.max(now, math.min(at, load.first + load.debounce_max))
  end
  local row = meet(id, at, payload, token, 'replace', load)
  if first and (row[1] == 1 or row[1] == 3) then
    row[1] = 7
  end
  return row
end

-- The hash keeps the token of the newest add only; a repeat of another finds its task by this.
local function remember(token, id, row)
  if token ~= '' and (row[1] == 1 or row[1] == 3 or row[1] == 7) then
    redis.pcall('SET', root .. 'joined:' .. token, id, 'PX', remember_ms)
  end
end

local function add_to(id, at, payload, token, on_conflict, load)
  if load.debounce then
    local row = put_off(id, payload, token, load)
    remember(token, id, row)
    return row
  end
  return meet(id, at, payload, token, on_conflict, load)
end

-- A repeat of an add that is stored under its own id, or went to another's.
local function find_repeat(id, token)
  local state, known_due, task = state_of(id)
  if state ~= 'none' and state ~= 'broken' and token ~= '' and (token == id or task[4] == token) then
    return {2, known_due, state}
  end
  local other = token ~= '' and redis.pcall('GET', root .. 'joined:' .. token)
  if type(other) == 'string' then
    local other_state, other_due = state_of(other)
    return {2, other_due, other_state, other ~= id and other or nil}
  end
  return nil
end

-- Answers the row of a task, its fourth value the id that it went to, where that is another's.
local function admit(id, at, payload, token, on_conflict, text)
  if text == '' then
    return meet(id, at, payload, token, on_conflict)
  end
  local load = read_load(text)
  on_conflict = load.on_conflict or on_conflict
  if not load.unique and not load.debounce then
    return meet(id, at, payload, token, on_conflict, load)
  end
  local row = find_repeat(id, token)
  if row then
    return row
  end
  local holder = load.unique and holder_of(load.unique)
  if type(holder) == 'table' then
    return {6, '', 'broken'}
  end
  if not holder then
    return add_to(id, at, payload, token, on_conflict, load)
  end
  local state, known_due = state_of(holder)
  if holder == id and state ~= 'none' then
    return add_to(id, at, payload, token, on_conflict, load)
  end
  if holder == id and token == id then
    -- A generated id: this add was stored, and its task has been pruned since.
    return {2, known_due, state}
  end
  local has_ended = state ~= 'scheduled' and state ~= 'early' and state ~= 'running'
  if has_ended and (on_conflict == 'error' or on_conflict == 'keep') and not load.debounce then
    return {on_conflict == 'error' and 5 or 4, known_due, state, holder}
  end
  if has_ended then
    return add_to(id, at, payload, token, on_conflict, load)
  end
  row = add_to(holder, at, payload, token, on_conflict, load)
  row[4] = holder
  remember(token, holder, row)
  return row
end
