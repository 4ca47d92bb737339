#!lua flags=allow-oom
-- Removes tasks of one state, a bounded number a call.
--
-- KEYS[1..6], ARGV[1..6]: see include/type.lua
-- ARGV[7]  state   done, cancelled, dead or scheduled
-- ARGV[8]  before  '' or: only what ended, or was due, up to this ms
-- ARGV[9]  offset  how many entries at the head of the index are to stay
-- ARGV[10] limit   most entries to look at
--
-- Returns {0, now µs, looked at, removed}
--         {-1, now µs} too late
--
-- @include type guard events live load anew
local state, before, offset, limit = ARGV[7], tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10])

local index = state == 'scheduled' and due or state == 'dead' and dead or done
local function is_wanted(id, score)
  if index == due and before then
    -- One of high priority stands before its due.
    return origin(score, redis.pcall('HGET', prefix .. id, 'moved')) <= before
  elseif index ~= done then
    return true
  end
  local outcome = redis.pcall('HGET', prefix .. id, 'outcome')
  return (outcome == 'cancelled') == (state == 'cancelled')
end

local entries = redis.call('ZRANGE', index, offset, offset + limit - 1, 'WITHSCORES')
local looked, ids = 0, {}
for place = 1, #entries, 2 do
  if before and tonumber(entries[place + 1]) > before then
    break
  end
  looked = looked + 1
  if is_wanted(entries[place], entries[place + 1]) then
    ids[#ids + 1] = entries[place]
  end
end
if #ids > 0 then
  local held = index == due and scores_of(leased, ids) or {}
  for position, id in ipairs(index == due and ids or {}) do
    -- Of one that runs only what a plain ZADD put beside it is removed.
    if not held[position] then
      leave(id, true)
    end
  end
  redis.call('ZREM', index, unpack(ids))
  drop(index, ids)
  note_all('purged', ids)
end
write_events()
return {0, now_us, looked, #ids}
