-- Collects what a call did, and writes it once: one event, the counters, one wake-up.
local kinds, seen, reasons, lowered = {}, {}, {}, nil
-- A lease has ended; something may start that is not the head of due.
local freed, hidden = false, false
local shown_ids = 100

-- Many ids at once; of each kind an event names the first and counts the others.
local function note_all(kind, ids)
  local known = seen[kind]
  if not known then
    known = {count = 0, shown = 0}
    seen[kind] = known
    kinds[#kinds + 1] = kind
  end
  known.count = known.count + #ids
  local more = math.min(#ids, shown_ids - known.shown)
  if more > 0 then
    known.shown = known.shown + more
    known[#known + 1] = table.concat(ids, ' ', 1, more)
  end
end

local function note(kind, id, reason)
  note_all(kind, {id})
  if reason and #reasons < shown_ids then
    reasons[#reasons + 1] = reason
  end
end

-- Something was put into due: the type's pollers are woken at the end if it is the earliest now.
local function lower(at)
  if not lowered or at < lowered then
    lowered = at
  end
end

-- Pollers of a type whose limit of runs was reached wait for a lease to end, whatever is due.
local function wake_up()
  local was_full = freed and redis.call('HDEL', meta, 'full') == 1
  if not (lowered or hidden or was_full) then
    return
  end
  -- What was put in first may have left again in this call: the earliest that is left counts.
  local first = redis.call('ZRANGE', due, '0', '0', 'WITHSCORES')[2]
  local is_now = hidden or was_full and redis.call('HEXISTS', meta, 'weighs') == 1
  local at = is_now and now or tonumber(first)
  if at and (is_now or was_full or at >= tonumber(int(lowered))) then
    redis.pcall('PUBLISH', wake, type_name .. ' ' .. int(at))
  end
end

local function write_events()
  if #kinds > 0 then
    local groups = {}
    for index, kind in ipairs(kinds) do
      local known = seen[kind]
      if known.count > known.shown then
        known[#known + 1] = '+' .. (known.count - known.shown)
      end
      groups[index] = table.concat(known, ' ')
      redis.pcall('HINCRBY', meta, 'n:' .. kind, known.count)
    end
    local entry = {'e', table.concat(kinds, ' '), 'ids', table.concat(groups, '\n'), 'node', node}
    if #reasons > 0 then
      entry[7], entry[8] = 'error', table.concat(reasons, '\n')
    end
    redis.call('XADD', events, 'MAXLEN', '~', '10000', '*', unpack(entry))
  end
  wake_up()
end
