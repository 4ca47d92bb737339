-- Collects what a call did, and writes it once: one event, the counters, one wake-up.
local kinds, seen, reasons, lowered = {}, {}, {}, nil
local shown_ids = 100

local function note(kind, id, reason)
  local ids = seen[kind]
  if not ids then
    ids = {count = 0}
    seen[kind] = ids
    kinds[#kinds + 1] = kind
  end
  ids.count = ids.count + 1
  if ids.count <= shown_ids then
    ids[#ids + 1] = id
  end
  if reason and #reasons < shown_ids then
    reasons[#reasons + 1] = reason
  end
end

-- Puts an id into due. The type's pollers are woken at the end if it is the earliest now.
local function set_due(id, at)
  redis.call('ZADD', due, int(at), id)
  if not lowered or at < lowered then
    lowered = at
  end
end

local function write_events()
  if #kinds > 0 then
    local groups = {}
    for index, kind in ipairs(kinds) do
      local ids = seen[kind]
      if ids.count > #ids then
        ids[#ids + 1] = '+' .. (ids.count - shown_ids)
      end
      groups[index] = table.concat(ids, ' ')
      redis.pcall('HINCRBY', meta, 'n:' .. kind, ids.count)
    end
    local entry = {'e', table.concat(kinds, ' '), 'ids', table.concat(groups, '\n'), 'node', node}
    if #reasons > 0 then
      entry[7], entry[8] = 'error', table.concat(reasons, '\n')
    end
    redis.call('XADD', events, 'MAXLEN', '~', 10000, '*', unpack(entry))
  end
  if lowered then
    local first = redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')
    if first[2] and tonumber(first[2]) >= lowered then
      redis.pcall('PUBLISH', wake, type_name .. ' ' .. int(lowered))
    end
  end
end
