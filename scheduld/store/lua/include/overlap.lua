-- Whether a tick becomes a task, as codes of cron_tick.lua.

-- What was decided from anything but what is stored changes nothing: a code, and what differs.
-- last: the instant that the watermark is to become.
local function refusal(known, digest, mark, last)
  last = number(last) or 0
  if not known then
    return known == false and 17 or 15, ''
  elseif known.moved then
    return 18, known.moved
  elseif known.digest ~= digest then
    return 12, known.digest
  elseif known.mark ~= tonumber(mark) or last <= known.mark then
    return 11, ''
  elseif known.paused or last > now then
    return known.paused and 13 or 14, ''
  elseif known.max_runs and known.runs >= known.max_runs then
    return 16, ''
  end
end

-- Whether somebody asked for a tick to be skipped: ranges that do not meet, in their order.
local function is_asked(skips, tick)
  for from, to in string.gmatch(skips or '', '(%d+)-(%d+)') do
    if tonumber(tick) <= tonumber(to) then
      return tonumber(tick) >= tonumber(from)
    end
  end
  return false
end

-- Asks the tasks in the way to end. Running ones are added to `stopped`.
local function make_way(ids, stopped)
  for _, id in ipairs(ids) do
    local key = prefix .. id
    if redis.pcall('HEXISTS', key, 'cancel') == 0 and stop(key, id, (state_of(id))) == 2 then
      stopped[#stopped + 1] = id
    end
  end
end

-- is_patient: a missed one, which comes when there is room for it.
local function overlap_of(one, known, is_patient, stopped)
  local most = known.overlap == 'allow' and number(known.most) or 1
  local count, ids = one.unfinished(most)
  if count == 0 and known.queued and not known.paused then
    -- The end of what it waited for was not seen.
    one.release(known)
    count, ids = one.unfinished(most)
  end
  if count < most then
    return 1
  elseif is_patient then
    return 19
  elseif known.overlap == 'allow' then
    return 5
  elseif known.overlap == 'cancel' then
    make_way(ids, stopped)
    -- What waited may have become a task by that.
    local fresh = one.read()
    known.queued, known.runs = fresh.queued, fresh.runs
    if one.unfinished(1) == 0 then
      return 1
    end
  elseif known.overlap ~= 'queue' then
    return 3
  end
  return known.queued and 4 or 2
end
