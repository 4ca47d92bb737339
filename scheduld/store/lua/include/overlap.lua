-- What an earlier task of a schedule means for a tick: its code (cron_tick.lua).

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
  if count == 0 and known.queued then
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
    known.queued = one.read().queued
    if one.unfinished(1) == 0 then
      return 1
    end
  elseif known.overlap ~= 'queue' then
    return 3
  end
  return known.queued and 4 or 2
end
