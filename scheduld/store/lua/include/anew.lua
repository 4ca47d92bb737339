-- A plain HSET and ZADD gave an ended id a new life: the hash is that life's, from now on
-- without anything of the old one. Only the index told them apart. (If the old hash was removed
-- first, all that is there is of the new life.)
local function begin_anew(id)
  local key = prefix .. id
  local task = redis.pcall('HMGET', key, 'payload', 'seen', 'fence', 'outcome')
  if not task.err and not (task[3] or task[4]) then
    return
  end
  -- seen without payload: a claim waits for the hash that may follow its ZADD.
  if not task.err and (task[1] or not task[2]) and redis.call('DEL', key) == 1 then
    redis.call('HSET', key, 'payload', task[1] or '{}')
  end
end

-- Removes the hashes of ids that were taken out of an index; who is in another keeps its hash.
local function drop(index, ids)
  local scheduled = index ~= due and redis.call('ZMSCORE', due, unpack(ids)) or {}
  local running = redis.call('ZMSCORE', leased, unpack(ids))
  local ended = index ~= done and scores_of(done, ids) or {}
  local died = index ~= dead and scores_of(dead, ids) or {}
  local hashes = {}
  for position, id in ipairs(ids) do
    local is_kept = running[position] or ended[position] or died[position]
    if scheduled[position] and not is_kept then
      begin_anew(id)
    elseif not (scheduled[position] or is_kept) then
      hashes[#hashes + 1] = prefix .. id
    end
  end
  if #hashes > 0 then
    redis.call('UNLINK', unpack(hashes))
  end
end
